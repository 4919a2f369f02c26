"""Advice for sampled CPU profiles: each rule with a profile that has the fault, and one that has not."""

import io
import re

import pytest

from perfloom.analysis.advice.cpu_rules import CPU_RULES
from perfloom.analysis.advice.findings import find_advice, list_rules
from perfloom.analysis.advice.rules import RULES
from perfloom.analysis.core.waiting_functions import waiting_pattern
from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection
from perfloom.readers import detect_format
from perfloom.web.pages import RESULT_PAGES

HEADER = "# captured on    : Mon Jun 15 12:00:00 2026\n# nrcpus online : {cpus}\n"


def read(text: bytes) -> Profile:
    return detect_format(text[:65536]).read(io.BytesIO(text), "text")


def record(stacks: dict[str, int], *, cpus: int = 4, apart_ns: int = 1_000_000, period: int = 1_000_000) -> Profile:
    """perf script text of so many samples of each "thread tid;outermost;…;innermost" ("module!function")."""
    text, time_ns = HEADER.format(cpus=cpus), 1_000_000_000
    for stack, count in stacks.items():
        thread, *frames = stack.split(";")
        comm, tid = thread.rsplit(" ", 1)
        lines = []
        for frame in reversed(frames):
            module, _, name = frame.rpartition("!")
            lines.append(f"\t    1170 {name or '[unknown]'}{'+0x4' if name else ''} ({module or '/bin/app'})\n")
        for _ in range(count):
            time_ns += apart_ns
            text += f"{comm} 10/{tid} [000] {time_ns / 1e9:.9f}: {period} cpu-clock: \n{''.join(lines)}\n"
    return read(text.encode())


def advise(profile: Profile) -> dict[str, str]:
    """The evidence of the findings by rule."""
    assert list_rules(profile) == CPU_RULES
    return {one.rule.key: one.evidence.replace("\u00a0", " ") for one in find_advice(profile, Selection())}


def test_rules_lead_to_pages_and_have_unique_keys() -> None:
    assert {rule.page for rule in CPU_RULES} <= {page.key for page in RESULT_PAGES}
    keys = [rule.key for rule in RULES + CPU_RULES]
    assert len(set(keys)) == len(keys)
    assert all(rule.advice.endswith(".") for rule in CPU_RULES)


def test_good_profile_has_no_findings() -> None:
    threads = {f"app {n};main;run;work": 500 for n in (10, 11, 12, 13)}
    assert not advise(record(threads, cpus=2, apart_ns=500_000))


def test_few_samples() -> None:
    evidence = advise(record({"app 10;main": 100}, cpus=1))
    assert evidence == {
        "few-samples": "100 samples of cpu-clock: a share of 10 % has a standard error of 3 percentage points."
    }


def test_unresolved_symbols_name_the_modules() -> None:
    found = advise(record({"app 10;main;/usr/lib/libx.so!": 300, "app 10;main;run": 700}, cpus=1))
    assert found == {"unresolved-symbols": "30.0 % of the samples are in functions without a symbol: libx.so 30.0 %."}


@pytest.mark.parametrize(
    ("stack", "expected"),
    [
        ("app 10;[unknown]!;work", "100.0 % begin in an unknown function, 0.0 % have 127 frames or more"),
        ("app 10;/usr/lib/libc.so.6!;start_thread;work", ""),
        ("app 10;/usr/lib/ld-linux-x86-64.so.2!;main;work", ""),
        ("app 10;" + ";".join(["main", *["recurse"] * 126]), "0.0 % begin in an unknown function, 100.0 % have 127"),
        ("app 10;" + ";".join(["main", *["recurse"] * 125]), ""),
    ],
)
def test_cut_off_stacks(stack: str, expected: str) -> None:
    found = advise(record({stack: 600}, cpus=1))
    assert expected in found.get("cut-off-stacks", "")
    assert ("cut-off-stacks" in found) == bool(expected)


def test_waiting_counts_each_sample_once_and_names_the_outermost_function() -> None:
    found = advise(
        record(
            {
                "app 10;main;pthread_mutex_lock@@GLIBC_2.2.5;do_futex": 300,
                "app 10;main;gomp_team_barrier_wait_end": 100,
                "app 10;main;work": 600,
            },
            cpus=1,
        )
    )
    assert found == {
        "waiting": "40.0 % of the samples are in functions that wait: pthread_mutex_lock@@GLIBC_2.2.5 30.0 %, "
        "gomp_team_barrier_wait_end 10.0 %."
    }


@pytest.mark.parametrize(
    ("name", "waits"),
    [
        ("MPI_Waitall", True),
        ("PMPI_Barrier", True),
        ("opal_progress", True),
        ("__kmp_hyper_barrier_release", True),
        ("epoll_wait", True),
        ("__GI___poll", True),
        ("native_queued_spin_lock_slowpath", True),
        ("pthread_mutex_lock@plt", True),
        ("pthread_mutex_unlock", False),
        ("__GI___pthread_mutex_unlock_usercnt", False),
        ("MPI_Send", True),
        ("mpi_barrier_", True),
        ("mpi_allreduce_f08_", True),
        ("MPIDI_progress_test", True),
        ("uct_mm_iface_progress", True),
        ("__x64_sys_sched_yield", True),
        ("gomp_mutex_lock_slow", True),
        ("mpi_compute_forces_", False),
        ("my_MPI_Barrier", False),
        ("do_something_else", False),
        ("gomp_thread_start", False),
        ("wait_for_it", False),
        ("block", False),
        ("selection_sort", False),
    ],
)
def test_waiting_functions(name: str, waits: bool) -> None:
    assert bool(re.search(waiting_pattern(), name)) is waits


def test_imbalance_of_threads_of_one_name() -> None:
    stacks = {"worker-0 11;main": 200, "worker-1 12;main": 200, "worker-2 13;main": 500, "main 10;main": 100}
    found = advise(record(stacks, cpus=1))
    assert found == {
        "imbalance": "Thread worker-2 13 computes 500 ms, 150 % more than the mean of the other 2 threads (200 ms), "
        "mostly in main (100 % of the difference), since 400 ms ± 9.99 ms. The others use 60 % less CPU time. A recording "
        "of the time off the CPU shows how long they wait."
    }


def test_idle_cpus() -> None:
    found = advise(record({"app 10;main": 1000}, cpus=8))
    assert found == {"idle-cpus": "On average 1.0 of 8 CPUs were in use by this program."}


def test_profiles_of_other_events_have_no_cpu_rules() -> None:
    assert list_rules(read(b"main;a 5\nmain;b 7\n")) == ()
