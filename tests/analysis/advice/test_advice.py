"""Rules of advice: what they find has numbers that can be checked, and nothing is said where nothing is known."""

import pytest

from perfloom.analysis.advice.findings import compute_advice, find_advice, parse_thresholds
from perfloom.analysis.advice.rules import RULES
from perfloom.analysis.core.schema import records
from perfloom.analysis.tables import TABLES
from perfloom.domain.errors import InvalidRequest
from perfloom.domain.profile import Meta, Profile
from perfloom.domain.selection import Selection
from perfloom.web.pages import RESULT_PAGES
from tests.store.making import small_profile
from tests.support.traced import Trace

ALL = dict.fromkeys((rule.key for rule in RULES), 0.0)


def loop() -> Profile:
    """Four steps of 100 µs, the third one of 200 µs: 30 µs of waiting for data each, a launch, a wait for its kernel."""
    trace = Trace()
    host, stream = trace.thread(1, "python"), trace.thread(7, stream=True)
    at = 0
    for number, length in enumerate((100_000, 100_000, 200_000, 100_000)):
        trace.slice(host, at, at + length, f"ProfilerStep#{number}", "annotation")
        trace.slice(host, at, at + 30_000, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "annotation")
        trace.slice(host, at + 30_000, at + 50_000, "aten::mm")
        launch = trace.slice(host, at + 40_000, at + 50_000, "cudaLaunchKernel", "runtime")
        trace.slice(host, at + 50_000, at + length - 20_000, "cudaDeviceSynchronize", "runtime")
        trace.slice(stream, at + 52_000, at + length - 30_000, "gemm", "kernel", launch)
        trace.step(f"ProfilerStep#{number}", at, at + length)
        at += length
    return trace.finish()


def test_evidence_in_numbers() -> None:
    found = {one.rule.key: one for one in find_advice(loop(), Selection())}
    data = found["dataloader"]
    assert data.finding.measured == pytest.approx(100 * 120 / 500) and data.severity == "medium"
    assert "24.0 % of the time of 4 steps (0.12 ms)" in data.finding.evidence
    uneven = found["uneven-steps"]
    assert (
        uneven.finding.measured == 100
        and "Step 2 took 0.2 ms, the median of 4 steps is 0.1 ms." in uneven.finding.evidence
    )
    # Each waits from 50 µs after its start until the kernel is done, 30 µs before the end.
    waits = found["synchronising"]
    assert waits.finding.measured == pytest.approx(100 * (20 + 20 + 120 + 20) / 500)
    assert "in 4 calls" in waits.finding.evidence
    grave = [one.severity for one in find_advice(loop(), Selection())]
    assert grave == sorted(grave, key=["high", "medium", "low"].index)


def test_a_threshold_can_be_set() -> None:
    profile = loop()
    assert not [one for one in find_advice(profile, Selection(), {"dataloader": 25}) if one.rule.key == "dataloader"]
    (same,) = [one for one in find_advice(profile, Selection(), {"dataloader": 24}) if one.rule.key == "dataloader"]
    assert same.threshold == 24
    assert parse_thresholds({"dataloader": " 12.5 ", "synchronising": "", "step": "3"}) == {"dataloader": 12.5}
    for wrong in ("much", "-1", "nan", "inf"):
        with pytest.raises(InvalidRequest, match="dataloader must be a number of at least 0"):
            parse_thresholds({"dataloader": wrong})


def test_in_one_step() -> None:
    rows = {row["rule"]: row for row in records(compute_advice(loop(), Selection(step="2")))}
    assert rows["dataloader"]["measured"] == pytest.approx(15) and "uneven-steps" not in rows


@pytest.mark.parametrize("profile", [small_profile(), Profile(Meta("x"))], ids=["samples", "nothing"])
def test_nothing_is_said_of_what_is_no_trace(profile: Profile) -> None:
    assert [one for one in find_advice(profile, Selection(), ALL) if one.rule in RULES] == []
    assert list(compute_advice(profile, Selection()).columns) == [column.name for column in TABLES["advice"].columns]


def test_no_rule_speaks_of_devices_where_there_are_none() -> None:
    trace = Trace()
    host = trace.thread(1)
    trace.slice(host, 0, 100, "aten::add")
    trace.step("ProfilerStep#0", 0, 100)
    assert find_advice(trace.finish(), Selection(), ALL) == []


def test_every_rule_leads_to_a_page() -> None:
    assert {rule.page for rule in RULES} <= {page.key for page in RESULT_PAGES}
    assert len({rule.key for rule in RULES}) == len(RULES)
    assert not {rule.key for rule in RULES} & {"event", "thread", "rank", "step", "focus", "search", "page", "sort"}


def several_ranks(count: int = 12) -> Profile:
    """Two steps of 100 µs on each rank; the higher, the longer it waits for data. The first waits not at all."""
    trace = Trace()
    for rank in range(count):
        host, stream = trace.thread(1, "python", rank=rank), trace.thread(7, rank=rank, stream=True)
        for number in range(2):
            at, wait = 100_000 * number, 2_000 * rank
            trace.slice(host, at, at + 100_000, f"ProfilerStep#{number}", "annotation")
            trace.slice(host, at, at + wait, "enumerate(DataLoader)#_Single.__next__", "annotation")
            trace.slice(host, at + wait, at + 90_000, "aten::mm")
            launch = trace.slice(host, at + wait, at + wait + 5_000, "cudaLaunchKernel", "runtime")
            trace.slice(stream, at + wait + 5_000, at + 99_000, "gemm", "kernel", launch)
            trace.step(f"ProfilerStep#{number}", at, at + 100_000, rank)
    return trace.finish()


def test_one_piece_of_advice_for_many_ranks() -> None:
    found = [one for one in find_advice(several_ranks(), Selection()) if one.rule.key == "dataloader"]
    (data,) = found
    # 2 % and 4 % of the first ranks are below the threshold of 5 %.
    assert data.finding.rank == 11 and data.ranks == "3–11" and data.finding.measured == pytest.approx(22)
    assert data.evidence.startswith("Rank 11: For 22.0 % of the time of 2 steps")
    assert data.evidence.endswith("The same on 8 other ranks (6 % to 20 %).")
    rows = [row for row in records(compute_advice(several_ranks(), Selection())) if row["rule"] == "dataloader"]
    assert [(row["rank"], row["ranks"], row["severity"]) for row in rows] == [(11, "3–11", "medium")]
    (alone,) = [
        one for one in find_advice(several_ranks(), Selection(), {"dataloader": 21}) if one.rule.key == "dataloader"
    ]
    assert (alone.ranks, alone.others, alone.evidence) == ("11", (), alone.finding.evidence)


def test_below_the_threshold_the_worst_is_the_least() -> None:
    (idle,) = [
        one for one in find_advice(several_ranks(), Selection(), {"gpu-utilization": 101}) if one.rule.triggers_below
    ]
    assert idle.finding.rank == 11 and idle.ranks == "0–11"
    assert idle.finding.measured == min(one.measured for one in (idle.finding, *idle.others))


def test_advice_does_not_repeat_words() -> None:
    # The page puts "Try:" before it.
    assert [rule.key for rule in RULES if rule.advice.startswith("Try")] == []
