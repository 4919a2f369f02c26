"""What a host is found to be able to do, on this host, and with a perf that is missing, broken or old."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from perfloom.domain.host_facts import HostFacts
from perfloom.recording.recorders.preflight import Severity, preflight
from perfloom.workers.base import facts_probe
from tests.support.jobspecs import spec_of
from tests.support.parts import missing, require
from tests.support.servers import OrdinaryUser


def test_this_host() -> None:
    perf = require("perf")
    facts = facts_probe.probe()
    assert facts.host == platform.node() and facts.cpus and facts.memory_bytes > 10**8
    assert facts.perf and os.path.samefile(facts.perf, perf) and facts.perf_version
    assert facts.paranoid is not None and facts.max_frequency and facts.hardware_counters is not None
    assert "-N" in facts.options and {event.group for event in facts.events} >= {"software", "raw"}
    assert HostFacts.from_json(facts.to_json()) == facts


def test_an_ordinary_user_has_fewer_rights(ordinary_user: OrdinaryUser) -> None:
    code = (
        "from perfloom.workers.base.facts_probe import probe; f = probe(); print(f.user, f.root, f.perf_capabilities)"
    )
    argv = ordinary_user.command(sys.executable, "-c", code)
    done = subprocess.run(argv, capture_output=True, text=True, env=ordinary_user.environment(), cwd="/", check=True)
    assert done.stdout.split()[:2] == [ordinary_user.name, "False"]


def test_without_perf(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    if list(Path("/usr/lib").glob("linux-tools/*/perf")):
        pytest.skip("this machine has a perf outside PATH")
    facts = facts_probe.probe()
    assert facts.perf is None and facts.hardware_counters is None and facts.events == ()
    assert [finding.field for finding in preflight(spec_of("true"), facts) if finding.level is Severity.ERROR] == [
        "recorder"
    ]


def _script(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_a_perf_that_is_only_a_signpost(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _script(tmp_path / "perf", "echo 'WARNING: perf not found for kernel 5.15.0-91' >&2; exit 2")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    facts = facts_probe.probe()
    if facts.perf is None:
        assert facts.perf_problem and "perf not found for kernel 5.15.0-91" in facts.perf_problem
        assert facts.perf_problem in preflight(spec_of("true"), facts)[0].message


def test_a_perf_without_newer_options(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _script(tmp_path / "perf", 'case "$1" in --version) echo "perf version 4.9";; *) echo "  -F, --freq <n>";; esac')
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    facts = facts_probe.probe()
    assert facts.perf_version == "4.9" and facts.options == ("--call-graph dwarf",) and facts.stat_options == ()


def test_a_perf_that_hangs_does_not_hold_up_anything(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _script(tmp_path / "perf", "sleep 60")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(facts_probe, "_TIMEOUT_S", 0.2)
    assert facts_probe.probe().perf_version != "hang"


def test_our_secrets_are_not_given_to_perf(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _script(tmp_path / "perf", f'env >>{tmp_path}/seen; echo "perf version 6.1"')
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("PERFLOOM_TOKEN", "very-secret-indeed")
    facts_probe.probe()
    assert "PATH=" in (tmp_path / "seen").read_text()
    assert "very-secret" not in (tmp_path / "seen").read_text()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files capabilities")
def test_capabilities_of_a_file(tmp_path: Path) -> None:
    program = tmp_path / "perf"
    _script(program, "true")
    assert facts_probe.file_capabilities(str(program)) == set()
    given = [require("setcap"), "cap_perfmon,cap_sys_ptrace,cap_syslog=ep", program]
    if subprocess.run(given, capture_output=True).returncode:
        missing("a filesystem with capabilities", f"let {tmp_path} lie on another one (TMPDIR)")
    assert facts_probe.file_capabilities(str(program)) == {"cap_perfmon", "cap_sys_ptrace", "cap_syslog"}
    link = tmp_path / "link"
    link.symlink_to(program)
    assert "cap_perfmon" in facts_probe.file_capabilities(str(link))
