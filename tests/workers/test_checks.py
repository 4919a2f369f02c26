"""What a host says about a job before it is queued."""

from __future__ import annotations

from pathlib import Path

from perfloom.config import Settings
from perfloom.domain.host_facts import HostFacts
from perfloom.domain.jobs import JobSpec, Language
from perfloom.workers.local.checks import check_json


def test_a_program_is_also_found_where_the_job_has_its_path(tmp_path: Path) -> None:
    settings = Settings.load(tmp_path / "data", environ={}, runtime=tmp_path / "run", reserve_bytes=0)
    settings.data.mkdir()
    program = tmp_path / "bin" / "own-solver"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)

    def said(spec: JobSpec) -> list[object]:
        answer = check_json(spec.to_json(), HostFacts("here", perf="/usr/bin/perf"), settings)
        findings = answer["findings"]
        assert isinstance(findings, list)
        return [one["message"] for one in findings if one["field"] == "command"]

    assert said(JobSpec(command=("own-solver",))) == ["own-solver was not found in PATH on here."]
    assert said(JobSpec(command=("own-solver",), path=("/nowhere", str(program.parent)))) == []


def test_an_interpreter_that_is_too_old_to_name_its_functions(tmp_path: Path) -> None:
    settings = Settings.load(tmp_path / "data", environ={}, runtime=tmp_path / "run", reserve_bytes=0)
    settings.data.mkdir()
    program = tmp_path / "python3"
    program.touch(0o755)

    def said(script: str, language: Language) -> list[tuple[object, object]]:
        program.write_text(f"#!/bin/sh\n{script}\n")
        spec = JobSpec(command=(str(program), "-c", "1"), language=language)
        findings = check_json(spec.to_json(), HostFacts("here", perf="/usr/bin/perf"), settings)["findings"]
        assert isinstance(findings, list)
        return [(one["message"], one["advice"]) for one in findings if one["field"] == "language"]

    text = f"{program} on here is version 3.8.18, which cannot name its functions."
    assert said("echo Python 3.8.18", Language.PYTHON) == [(text, "Use Python 3.9 or later.")]
    assert said("echo Python 3.9.0", Language.PYTHON) == said("echo Python of whatever version", Language.PYTHON) == []
    assert [advice for _, advice in said("echo Python 3.8.18", Language.NONE)] == ["Choose Python as language."]
    # Java says its version on standard error, after the options from the environment.
    program = tmp_path / "java"
    program.touch(0o755)
    options = "Picked up JAVA_TOOL_OPTIONS: -Dold=1.2.3"
    java = f"""echo '{options}' >&2; [ "$1" = -version ] && echo 'openjdk version "1.8.0_292"' >&2"""
    assert [advice for _, advice in said(java, Language.JAVA)] == ["Use Java 17.0 or later."]
    assert said(java.replace("1.8.0_292", "17.0.9"), Language.JAVA) == []
