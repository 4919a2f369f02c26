"""What a host says about a job before it is queued."""

from __future__ import annotations

from pathlib import Path

from perfloom.config import Settings
from perfloom.domain.host_facts import HostFacts
from perfloom.domain.jobs import JobSpec
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
