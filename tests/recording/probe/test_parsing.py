"""What the probe prints on other machines is read, whatever their versions are."""

import json
import re
from dataclasses import replace

import pytest

from perfloom.domain.errors import Unavailable
from perfloom.domain.jobs import MpiFlavor
from perfloom.domain.targets import SchedulerName, Ssh, Target, TargetFacts
from perfloom.recording.probe.probe import (
    ClockReading,
    parse_probe,
    read_clock,
    read_sections,
    with_compute_node,
    with_previous_probe,
)
from tests.recording.probe import answers
from tests.recording.probe.answers import RED_HAT, changed, place, printed

TARGET = Target("big", ssh=Ssh("login2"), scheduler=SchedulerName.SLURM, modules=("intel",), scratch="$TMPDIR")
NOW = 1_700_000_000.0


def facts_of(*sections: answers.Section, target: Target = TARGET) -> TargetFacts:
    return parse_probe(printed(*sections), target, NOW)


def test_a_login_node_of_red_hat_with_slurm_and_intel_mpi() -> None:
    facts = facts_of(*RED_HAT)
    host = facts.host
    assert (host.host, host.user, host.root, host.cpus) == ("login2", "ada", False, 80)
    assert host.os == "Red Hat Enterprise Linux 9.4 (Plow)" and host.memory_bytes == 197438124 * 1024
    assert host.cpu == "Intel(R) Xeon(R) Gold 6248 CPU @ 2.50GHz" and host.lbr is True
    assert {name: host.limits[name] for name in ("cpu_vendor", "cpu_family", "cpu_model", "ptrace_scope")} == {
        "cpu_vendor": "GenuineIntel",
        "cpu_family": "6",
        "cpu_model": "85",
        "ptrace_scope": "0",
    }
    assert (host.perf, host.perf_version) == ("/usr/bin/perf", "5.14.0-427.13.1.el9_4.x86_64")
    assert (host.paranoid, host.kptr_restrict, host.max_frequency) == (2, 1, 100_000)
    assert host.options == ("-z", "-N", "--no-bpf-event", "--max-size", "--call-graph dwarf")
    assert host.stat_options == ("-j",) and host.hardware_counters is True
    assert {event.name: event.group for event in host.events} == {
        "branch-instructions": "hardware",
        "branches": "hardware",
        "cpu-cycles": "hardware",
        "cycles": "hardware",
        "page-faults": "software",
        "faults": "software",
        "dsb2mite_switches.penalty_cycles": "frontend",
    }
    assert facts.mpi_launchers == {"intel": "mpirun", "srun": "srun"}
    assert facts.versions == {
        "intel": "Intel MPI 2021.10 Build 20230619",
        "srun": "srun with cray_shasta, pmi2, pmix",
    }
    assert (facts.schedulers, facts.scheduler_version, facts.missing) == (("slurm",), "Slurm 23.11.6", ())
    assert (facts.directory, facts.file_system) == ("/lustre/home/ada/.perfloom", "lustre")
    assert facts.free_bytes == 52_428_800 * 1024 and facts.runs_programs is True
    assert facts.packers == ("gzip",) and list(facts.problems) == ["scratch"] and "TMPDIR" in facts.problems["scratch"]
    assert TargetFacts.from_json(json.loads(json.dumps(facts.to_json()))) == facts


@pytest.mark.parametrize(
    ("said", "flavour", "version"),
    [
        (answers.INTEL_MPI_2019, "intel", "Intel MPI 2019 Update 2"),
        (answers.SPECTRUM, "spectrum", "Spectrum MPI 10.3.1.02"),
        (answers.PLATFORM, "platform", "Platform MPI 09.01.04.03"),
        (answers.OPENMPI_5, "openmpi", "Open MPI 5.0.5"),
        (answers.PRRTE, "openmpi", "Open MPI 3.0.6"),
        (answers.HYDRA, "mpich", "MPICH 4.1.2"),
    ],
    ids=lambda value: value.split("\n")[0][:30],
)
def test_launcher_version_identifies_mpi(said: str, flavour: str, version: str) -> None:
    launcher = ("launcher", f"mpirun\n/opt/mpi/bin/mpirun\n{said}", 0)
    facts = facts_of(*changed(launcher, ("srun", "", 1)))
    assert facts.mpi_launchers == {flavour: "mpirun"} and facts.versions[flavour].startswith(version)


def test_unknown_launcher_version_is_ignored() -> None:
    facts = facts_of(*changed(("launcher", "mpirun\n/opt/mpirun\nmpirun 1.0 by somebody", 0), ("srun", "", 1)))
    assert facts.mpi_launchers == {} and facts.versions == {}


def test_launcher_of_target_has_precedence() -> None:
    target = replace(TARGET, starters={"intel": "/opt/impi/mpirun"}, mpi=MpiFlavor.INTEL)
    assert facts_of(*RED_HAT, target=target).mpi_launchers["intel"] == "/opt/impi/mpirun"


@pytest.mark.parametrize("said", [answers.SRUN_20, answers.SRUN_23], ids=["slurm 20", "slurm 23"])
def test_srun_of_every_version(said: str) -> None:
    version = facts_of(*changed(("srun", said, 0))).versions["srun"]
    assert "pmix" in version and "pmi2" in version and "srun:" not in version


def test_srun_that_does_not_reach_its_controller_is_none() -> None:
    said = "srun: error: resolve_ctls_from_dns_srv: res_nsearch error: Unknown host\nsrun: fatal: Could not"
    assert "srun" not in facts_of(*changed(("srun", said, 1))).mpi_launchers


def test_versions_of_lsf_and_slurm() -> None:
    lsf = replace(TARGET, scheduler=SchedulerName.LSF)
    programs = ("programs", "bsub /opt/lsf/bin/bsub", 0)
    facts = facts_of(*changed(("lsf", answers.LSF_VERSION, 0), programs), target=lsf)
    assert facts.scheduler_version == "LSF 10.1.0.11" and facts.schedulers == ("lsf",)
    older = "Platform LSF 9.1.3.0, Jul 04 2014\nCopyright International Business Machines Corp, 1992-2014."
    assert facts_of(*changed(("lsf", older, 0)), target=lsf).scheduler_version == "LSF 9.1.3.0"
    assert facts_of(*changed(("slurm", "slurm-wlm 22.05.8", 0))).scheduler_version == "Slurm 22.05.8"
    assert facts_of(*changed(("slurm", "sbatch: fatal: no", 1))).scheduler_version == ""


def test_a_newer_perf_with_json_that_is_not_quite() -> None:
    facts = facts_of(
        *changed(
            ("perf", "/usr/bin/perf\nperf version 6.12.5", 0),
            ("build", answers.BUILD_6_12, 0),
            ("list-json", answers.LIST_JSON, 0),
        )
    )
    assert [event.name for event in facts.host.events] == ["branch-instructions", "branches", "l1d.replacement"]
    # Built with neither: no -z, and no dwarf.
    assert facts.host.options == ("-N", "--no-bpf-event", "--max-size")


@pytest.mark.parametrize(
    ("said", "status", "python", "torch"),
    [
        ("/opt/env/bin/python3\n2.13.0+cpu", 0, "/opt/env/bin/python3", "2.13.0+cpu"),
        ("/usr/bin/python3\nTraceback (most recent call last):\n  importlib.metadata…", 1, "/usr/bin/python3", ""),
        ("pyenv: python3: command not found", 127, "", ""),
        ("", 0, "", ""),
    ],
)
def test_which_python_and_whether_it_has_pytorch(said: str, status: int, python: str, torch: str) -> None:
    host = facts_of(*changed(("python", said, status))).host
    assert (host.python, host.torch) == (python, torch)


def test_other_processors() -> None:
    power = facts_of(*changed(("cpu", answers.CPU_POWER, 0))).host
    assert power.cpu == "POWER9, altivec supported" and power.lbr is False
    arm = facts_of(*changed(("cpu", answers.CPU_ARM, 0), ("machine", "aarch64", 0))).host
    assert arm.cpu == "aarch64" and arm.limits["cpu_part"] == "0x001"


def test_perf_that_is_a_signpost_and_perf_behind_it() -> None:
    sign = ("perf", "/usr/bin/perf\nWARNING: perf not found for kernel 5.15.0-91\n\n  You may need to install", 0)
    host = facts_of(*changed(sign)).host
    assert host.perf is None and host.perf_problem is not None
    assert "does not run: WARNING: perf not found for kernel 5.15.0-91 You may need" in host.perf_problem
    real = ("perf", "/usr/lib/linux-tools/5.15.0-88-generic/perf\nperf version 5.15.131", 0)
    host = facts_of(*changed(sign, real)).host
    assert host.perf == "/usr/lib/linux-tools/5.15.0-88-generic/perf" and host.perf_problem is None


def test_no_perf_at_all_and_none_in_the_kernel() -> None:
    without = [section for section in RED_HAT if section[0] not in ("perf", "list", "build", "record-help")]
    host = facts_of(*without).host
    assert (host.perf, host.perf_problem, host.events, host.options) == (None, None, (), ())
    kernel = facts_of(*changed(("settings", "kptr_restrict 0", 0))).host
    assert kernel.perf is None and kernel.perf_problem and "CONFIG_PERF_EVENTS" in kernel.perf_problem


@pytest.mark.parametrize(
    ("said", "names"),
    [
        ("/usr/bin/perf cap_sys_ptrace,cap_syslog,cap_perfmon=ep", {"cap_sys_ptrace", "cap_syslog", "cap_perfmon"}),
        ("/usr/bin/perf = cap_sys_ptrace,cap_syslog,38+ep", {"cap_sys_ptrace", "cap_syslog", "cap_perfmon"}),
        ("/opt/a b/perf cap_perfmon=eip", {"cap_perfmon"}),
        ("/usr/bin/perf cap_perfmon=p", set()),
        ("/usr/bin/perf cap_net_raw=ep", set()),
        ("", set()),
    ],
)
def test_rights_that_the_file_of_perf_has(said: str, names: set[str]) -> None:
    assert set(facts_of(*changed(("capabilities", said, 0))).host.perf_capabilities) == names


def test_rights_of_root_and_what_root_in_a_container_lacks() -> None:
    whole = answers.RIGHTS_USER.replace("5012", "0").replace("CapEff:\t0000000000000000", "CapEff:\t000001ffffffffff")
    host = facts_of(*changed(("uid", "0", 0), ("user", "root", 0), ("rights", whole, 0))).host
    assert host.root and "cap_perfmon" in host.perf_capabilities
    contained = answers.RIGHTS_USER.replace("5012", "0")
    assert not facts_of(*changed(("uid", "0", 0), ("rights", contained, 0))).host.root


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ('There is no command "module".', 127),
        ("ModuleCmd_Load.c(213):ERROR:105: Unable to locate a modulefile for 'intel'", 0),
        ('Lmod has detected the following error: The following module(s) are unknown: "intel"', 1),
        ("ERROR: Unable to locate a modulefile for 'intel'", 1),
    ],
)
def test_modules_that_cannot_be_loaded(said: str, status: int) -> None:
    assert facts_of(*changed(("modules", said, status))).problems["modules"] == said


def test_the_module_command_is_that_of_where_jobs_run() -> None:
    login, node = (facts_of(*changed(("module-command", word, 0))) for word in ("yes", "no"))
    assert facts_of(*changed()).module_command is None
    both = with_compute_node(login, node, shared=True)
    assert (login.module_command, both.module_command) == (True, False)
    assert with_previous_probe(login, both).module_command is False


def test_module_output_is_no_problem() -> None:
    assert (
        "modules" not in facts_of(*changed(("modules", "Loading intel/2023.1\n  Loading requirement: gcc", 0))).problems
    )


def test_sudo_is_reported_only_if_requested() -> None:
    refused = ("sudo", "sudo: a password is required", 1)
    assert facts_of(*changed(refused)).sudo is None
    target = replace(TARGET, sudo=True)
    facts = facts_of(*changed(refused), target=target)
    assert facts.sudo is False and facts.problems["sudo"] == "sudo: a password is required"
    assert facts_of(*changed(("sudo", "perf version 5.14", 0)), target=target).sudo is True
    assert facts_of(*RED_HAT, target=target).sudo is None


def test_places_that_cannot_be_used() -> None:
    full = "path /lustre/x\nproblem sh: 1: cannot create /lustre/x/.probe.7/run: No space left on device\nsystem nfs"
    facts = facts_of(*changed(("directory", full, 0)))
    assert "No space left" in facts.problems["directory"] and facts.directory == "/lustre/x"
    relative = facts_of(*changed(("directory", "path etc\nruns yes", 0)))
    assert relative.directory == "" and "not an absolute path" in relative.problems["directory"]
    missing = facts_of(*changed(place("scratch", "/scratch", "xfs", -5)))
    assert missing.scratch == "/scratch" and missing.scratch_free_bytes is None


def test_only_what_answers_as_a_shell_is_read() -> None:
    for text in ("", "Please use gateway3.\nThis account is currently not available.", "\0\xff" * 9):
        with pytest.raises(Unavailable, match="did not run there"):
            parse_probe(text, TARGET, NOW)


def test_text_outside_of_sections_is_ignored() -> None:
    text = f"Welcome!\nquota: 90%\n{printed(*RED_HAT)}logout\n"
    assert parse_probe(text, TARGET, NOW) == facts_of(*RED_HAT)


def test_incomplete_probe_is_reported() -> None:
    text = printed(*RED_HAT)
    for end in range(text.index("begin kernel"), len(text) - 60, 997):
        assert "probe" in parse_probe(text[:end], TARGET, NOW).problems


def test_hostile_answers_stay_text() -> None:
    """Signs that a terminal obeys, endless lines and marks inside answers."""
    bad = "x\x1b[2J" + "y" * 100_000
    facts = facts_of(
        *changed(("perf", f"/usr/bin/perf\n{bad}", 0), ("modules", bad, 1), ("cpus", "9" * 400, 0), ("host", bad, 0))
    )
    assert facts.host.perf_problem is not None and len(facts.host.perf_problem) < 600
    assert "\x1b" not in facts.host.perf_problem + facts.problems["modules"] + facts.host.host
    assert facts.host.cpus == 0 and len(facts.host.host) < 600
    inside = read_sections(
        f"{answers.SECTION_MARKER} begin a\n{answers.SECTION_MARKER} end 99999999999999999999\n{answers.SECTION_MARKER} end x\n"
    )
    assert inside["a"][0].status is None


def test_the_clock_of_the_quickest_look_counts() -> None:
    looks = (ClockReading(1000, 9500, 2000), ClockReading(5000, 13_100, 5200), ClockReading(8000, 99_000, 9000))
    facts = parse_probe(printed(*RED_HAT), TARGET, NOW, looks)
    assert (facts.clock_ns, facts.clock_error_ns) == (8000, 100)
    assert read_clock(1, "1700000000123456789\n", 2) == ClockReading(1, 1700000000123456789, 2)
    assert read_clock(1, "1700000000%N\n", 2) is None and read_clock(1, "", 2) is None


def test_compute_node_facts_are_separate() -> None:
    login = facts_of(*RED_HAT)
    node = facts_of(*changed(("host", "node7", 0), place("scratch", "/local/ada", "xfs", 900)))
    both = with_compute_node(login, node, shared=True)
    assert (both.host.host, both.recording_host.host, both.shared) == ("login2", "node7", True)
    assert both.scratch == "/local/ada" and both.problems == {}
    later = with_previous_probe(login, both)
    assert later.compute == both.compute and later.shared and later.scratch == "/local/ada"
    assert with_previous_probe(replace(login, directory="/elsewhere"), both).compute is None
    hidden = with_compute_node(login, None, shared=False)
    assert hidden.shared is False and hidden.recording_host.host == "login2"


def test_every_section_of_the_script_is_parsed() -> None:
    """The script has no section that is not parsed."""
    from importlib import resources

    script = resources.files("perfloom.recording.probe").joinpath("probe.sh").read_text()
    asked = set(re.findall(r"^\s*(?:say|tell|begin|place) ([a-z-]+)", script, re.M))
    reader = resources.files("perfloom.recording.probe").joinpath("probe.py").read_text()
    assert {name for name in asked if f'"{name}"' not in reader} <= {"slurm", "lsf"}
