"""The top-down tree equals the percentages that perf printed with counts of real CPUs."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from perfloom.analysis.formulas.additional import set_additional_formulas
from perfloom.analysis.topdown.models import has_topdown, load_models, resolve_models
from perfloom.analysis.topdown.rows import compute_topdown
from perfloom.domain.formulas.formula import Formula, expand
from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection
from perfloom.readers import perf_stat
from perfloom.recording.fields.events import event_problem
from perfloom.recording.recorders.events import single_events
from tests.support.formats import DATA
from tests.support.profiles import profile_of

FOLDER = DATA / "perf-stat-topdown"
# By file: the model, and by category what perf printed.
PRINTED: dict[str, tuple[str, dict[str, float]]] = {
    "sapphire-rapids.txt": (
        "intel-metrics",
        {
            "retiring": 18.4,
            "light operations": 15.6,
            "heavy operations": 2.7,
            "bad speculation": 15.2,
            "branch mispredictions": 14.5,
            "machine clears": 0.8,
            "front-end bound": 33.2,
            "fetch latency": 22.3,
            "fetch bandwidth": 10.9,
            "back-end bound": 33.2,
            "memory bound": 17.2,
            "core bound": 16.0,
        },
    ),
    "sapphire-rapids-idle.txt": (
        "intel-metrics",
        {
            "retiring": 24.2,
            "light operations": 19.8,
            "heavy operations": 4.4,
            "bad speculation": 3.4,
            "branch mispredictions": 2.9,
            "machine clears": 0.5,
            "front-end bound": 19.2,
            "fetch latency": 12.2,
            "fetch bandwidth": 7.0,
            "back-end bound": 53.2,
            "memory bound": 30.5,
            "core bound": 22.7,
        },
    ),
    # perf printed the means of the percentages of five runs: 0.1 away.
    "ice-lake.txt": (
        "intel-metrics",
        {"retiring": 32.5, "bad speculation": 13.9, "front-end bound": 35.3, "back-end bound": 18.4},
    ),
    "cascade-lake.txt": (
        "intel-skylake",
        {"retiring": 59.9, "bad speculation": 4.6, "front-end bound": 28.1, "back-end bound": 7.2},
    ),
    # perf printed fractions with two digits.
    "skylake.txt": (
        "intel-skylake",
        {"retiring": 13.9, "bad speculation": 7.9, "front-end bound": 37.7, "back-end bound": 40.5},
    ),
    "zen4.txt": (
        "amd-zen4",
        {
            "fast path": 7.6,
            "microcode": 50.7,
            "branch mispredictions": 0.3,
            "pipeline restarts": 0.2,
            "fetch latency": 1.4,
            "fetch bandwidth": 1.6,
            "memory bound": 26.8,
            "core bound": 11.5,
        },
    ),
}


def read(path: Path) -> Profile:
    with path.open("rb") as stream:
        return perf_stat.read(stream)


@pytest.mark.parametrize("name", PRINTED)
def test_shares_are_those_that_perf_printed(name: str) -> None:
    key, printed = PRINTED[name]
    profile = read(FOLDER / name)
    rows = compute_topdown(profile, Selection())
    titles = {model.key: model.title for model in load_models()}
    assert set(rows["model"]) == {titles[key]}
    shares = dict(zip(rows["category"], rows["percent"], strict=True))
    # Half a digit; of events that were counted in several groups, perf used those of one, for a quarter of the time.
    slack = {"cascade-lake.txt": 0.3, "zen4.txt": 0.1}.get(name, 0.0501)
    for category, percent in printed.items():
        assert shares[category] == pytest.approx(percent, abs=slack), category
    assert sum(rows["percent"][rows["level"] == 1]) == pytest.approx(100, abs=0.5)
    for parent in set(rows["parent"].dropna()):
        parts = rows["percent"][rows["parent"] == parent].sum()
        assert parts == pytest.approx(shares[parent], abs=1e-6), parent
    assert rows["note"].isna().all()


def test_an_event_of_several_groups_counts_once() -> None:
    """perf prints the counts of each group of `-M PipelineL2`; each is scaled to the whole time."""
    profile = read(FOLDER / "zen4.txt")
    names = profile.events.column("name").to_pylist()
    counts = {names[row["event"]]: row for row in profile.counts.to_pylist()}
    assert len(counts) == profile.counts.num_rows
    four = (33_114_274_379, 33_100_041_542, 33_124_607_739, 33_137_360_665)
    assert counts["ls_not_halted_cyc"]["value"] == pytest.approx(sum(four) / 4)
    assert counts["ex_ret_ops"]["value"] == pytest.approx((115_801_340_018 + 115_851_693_965) / 2)


def test_thresholds() -> None:
    rows = compute_topdown(read(FOLDER / "zen4.txt"), Selection()).set_index("category")
    # Microcode marks retiring although that is below its own threshold.
    above = {"retiring", "microcode", "back-end bound", "memory bound", "core bound"}
    assert set(rows.index[rows["above"]]) == above
    rows = compute_topdown(read(FOLDER / "sapphire-rapids.txt"), Selection()).set_index("category")
    assert not rows.loc["machine clears", "above"] and rows.loc["branch mispredictions", "above"]


def test_other_spellings_of_the_events() -> None:
    text = (FOLDER / "sapphire-rapids.txt").read_text()
    expected = compute_topdown(read(FOLDER / "sapphire-rapids.txt"), Selection())
    for spelling in ("cpu_core/topdown-{}/", "cpu/topdown-{}/u", "TOPDOWN-{}:u"):
        changed = text
        for word in ("retiring", "bad-spec", "fe-bound", "be-bound", "heavy-ops", "br-mispredict", "mem-bound"):
            changed = changed.replace(f"topdown-{word}", spelling.format(word))
        changed = changed.replace("topdown-fetch-lat", spelling.format("fetch-lat"))
        rows = compute_topdown(perf_stat.read(io.BytesIO(changed.encode())), Selection())
        assert rows["percent"].tolist() == expected["percent"].tolist(), spelling


def test_sampled_slots_and_a_selection() -> None:
    """A sampled profile has a tree, of what is selected."""
    events = ("slots", "topdown-retiring", "topdown-bad-spec", "topdown-fe-bound", "topdown-be-bound")
    weights = {"fast": (0, 80, 5, 5, 10), "slow": (0, 10, 0, 0, 90)}
    samples = [
        (f"main;{function}", weight, 0, 1 + number, number)
        for function, row in weights.items()
        for number, weight in enumerate(row)
        if weight
    ]
    profile = profile_of(samples, events=tuple((name, "count") for name in events))
    assert has_topdown(profile)

    def retiring(**words: str) -> float:
        rows = compute_topdown(profile, Selection(**words)).set_index("category")
        return float(rows.loc["retiring", "percent"])

    assert (retiring(), retiring(focus="slow"), retiring(focus="fast")) == (45, 10, 80)


def test_without_counts_and_with_impossible_ones() -> None:
    assert not has_topdown(read(DATA / "perf-stat" / "run.txt"))
    assert len(compute_topdown(read(DATA / "perf-stat" / "run.txt"), Selection())) == 0
    events = tuple((f"topdown-{word}", "count") for word in ("retiring", "bad-spec", "fe-bound", "be-bound"))
    none = profile_of([("main", 1, 0, 1, 4)], events=(*events, ("cycles", "count")))
    assert compute_topdown(none, Selection())["percent"].isna().all()
    text = (FOLDER / "skylake.txt").read_text().replace("1,642,085,777", "9,642,085,777")
    rows = compute_topdown(perf_stat.read(io.BytesIO(text.encode())), Selection()).set_index("category")
    assert "not counted at the same time" in rows.loc["front-end bound", "note"]
    text = (FOLDER / "skylake.txt").read_text().replace("769,694,676", "<not counted>")
    rows = compute_topdown(perf_stat.read(io.BytesIO(text.encode())), Selection()).set_index("category")
    assert rows["percent"].isna()["bad speculation"] and rows.loc["bad speculation", "note"]


def test_formulas_of_users_do_not_change_the_tree() -> None:
    expected = compute_topdown(read(FOLDER / "skylake.txt"), Selection())["percent"].tolist()
    set_additional_formulas([Formula("retiring", "1"), Formula("all slots", "2"), Formula("recovery", "3")])
    try:
        found = compute_topdown(read(FOLDER / "skylake.txt"), Selection())["percent"].tolist()
    finally:
        set_additional_formulas(())
    assert found == expected


def test_the_models_are_consistent() -> None:
    for model in load_models():
        by_name = {category.name: category for category in model.categories}
        assert len(by_name) == len(model.categories)
        known = {name: formulas[0] for name, formulas in model.terms.items()}
        known |= {name: category.formulas[0] for name, category in by_name.items()}
        for category in model.categories:
            assert category.parent == "" or by_name[category.parent].level == 1
            assert category.hint.endswith(".") and 0 < category.above < 100
            for formula in category.formulas:
                expand(formula, known)
        for groups in model.record.values():
            assert all(event_problem(group) is None for group in groups), model.key


def test_recorded_events_are_those_of_the_formulas() -> None:
    """What the page says to record for a level gives all its categories."""
    for model in load_models():
        for level, groups in model.record.items():
            names = {name for group in groups for name in _names(group)}
            profile = profile_of(
                [("main", 1, 0, 1, number) for number in range(len(names))],
                events=tuple((name, "count") for name in sorted(names)),
            )
            resolved = next(each for each in resolve_models(profile) if each.model.key == model.key)
            wanted = {category.name for category in model.categories if category.level <= level}
            assert wanted == {category.name for category, _ in resolved.categories}, (model.key, level)


def _names(group: str) -> list[str]:
    return single_events(group)
