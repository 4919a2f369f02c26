"""Branch stacks (LBR) in perf script's text: every syntax of perf, and damaged ones."""

from __future__ import annotations

import io
import re
from collections import Counter
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from perfloom.domain.profile import Profile
from perfloom.domain.validation import find_error
from perfloom.ingest.perf_text import losses, script_header
from perfloom.ingest.perf_text.branch_entries import parse_entry
from perfloom.ingest.perf_text.branch_loops import EdgePlaces, is_backward, trace_loops
from perfloom.readers import perf_script
from perfloom.readers.formats import detect_format
from perfloom.readers.perf_script import branches
from perfloom.workers.read import perf_tool
from tests.support import paths
from tests.support.parts import require
from tests.support.perf.branch_stacks import (
    INNER,
    Taken,
    add_branch_stacks,
    format_entry,
    format_place,
    format_text,
    sample_stacks,
)

STACKS = sample_stacks(12)
MODULE = "/opt/my app/work"
SYNTAXES = [
    (form, flags, module, chain)
    for form in ("brstack", "brstacksym", "brstackoff")
    for flags in (4, 5, 6)
    for module in (MODULE, "", "/lib/x (y)/z.so (deleted)", "[kernel.kallsyms]")
    for chain in (True, False)
    # Without modules and call stacks, perf writes nothing between the symbol of the frame and that of the branch.
    if chain or module or form != "brstacksym"
]
Edge = tuple[str, int | None, str, int | None, str | None]


def read(text: str) -> Profile:
    raw = text.encode()
    assert detect_format(raw).name == "perf-script"
    profile = perf_script.read(io.BytesIO(raw))
    assert find_error(profile) is None
    return profile


def edges_of(profile: Profile) -> list[Edge]:
    """(function, offset or address) of both ends, and the type, of each distinct branch."""
    names = profile.functions.column("name").to_pylist()
    found = []
    for row in profile.branch_edges.to_pylist():
        ends: list[str | int | None] = []
        for end in ("source", "target"):
            offset = row[f"{end}_address"] if row[f"{end}_offset"] is None else row[f"{end}_offset"]
            ends += [names[row[end]], offset]
        found.append((*ends, row["kind"]))
    return found  # type: ignore[return-value]


def sums_of(profile: Profile, *columns: str) -> dict[Edge, tuple[int, ...]]:
    """The sums of these columns by branch."""
    edges = edges_of(profile)
    found: dict[Edge, tuple[int, ...]] = {}
    for row in profile.branches.to_pylist():
        before = found.get(edges[row["edge"]], (0,) * len(columns))
        found[edges[row["edge"]]] = tuple(a + row[name] for a, name in zip(before, columns, strict=True))
    return found


def losses_of(profile: Profile) -> dict[str, int]:
    return {row["reason"]: row["count"] for row in profile.losses.to_pylist()}


def expected(form: str, with_type: bool) -> Counter[Edge]:
    found: Counter[Edge] = Counter()
    for one in (one for stack in STACKS for one in stack):
        ends: list[str | int] = []
        for name, offset in ((one.source, one.source_offset), (one.target, one.target_offset)):
            symbolic = form == "brstacksym"
            address = format_place(name, offset, form, "")
            ends += [name if symbolic else "[unknown]", offset if symbolic else int(address, 16)]
        found[(*ends, one.kind if with_type else None)] += 1  # type: ignore[index]
    return found


@pytest.mark.parametrize(("form", "flags", "module", "chain"), [one for one in SYNTAXES if one[2]])
def test_modules_after_a_space_are_the_same(form: str, flags: int, module: str, chain: bool) -> None:
    """As perf 6.12 prints them."""
    text = format_text(STACKS, form=form, flags=flags, module=module, chain=chain)
    spaced = re.sub(r"(?<! )" + re.escape(f"({module})"), f" ({module})", text)
    assert spaced != text
    assert read(spaced).branches == read(text).branches
    assert read(spaced).functions == read(text).functions


@pytest.mark.parametrize(("form", "flags", "module", "chain"), SYNTAXES)
def test_every_syntax_yields_the_branches_and_leaves_the_samples(
    form: str, flags: int, module: str, chain: bool
) -> None:
    profile = read(format_text(STACKS, form=form, flags=flags, module=module, chain=chain))
    assert {edge: count for edge, (count,) in sums_of(profile, "count").items()} == expected(form, flags > 4)
    assert not losses_of(profile) and profile.meta.complete
    plain = read(format_text([stack[:1] for stack in STACKS], module=module, chain=chain, entry=lambda one: ""))
    assert profile.samples.equals(plain.samples) and profile.stacks.equals(plain.stacks)
    names = profile.functions.column("name").to_pylist()
    modules = set(profile.functions.column("module").to_pylist())
    assert modules == {module or "/opt/work", module}, names


def test_counts_cycles_and_predictions_are_added_up_by_sample() -> None:
    profile = read(format_text(STACKS))
    flat = [one for stack in STACKS for one in stack]
    for edge, (count, cycles, mispredicted, predicted) in sums_of(
        profile, "count", "cycles", "mispredicted", "predicted"
    ).items():
        same = [one for one in flat if (one.source, one.source_offset, one.target, one.target_offset) == edge[:4]]
        assert (count, cycles) == (len(same), sum(one.cycles for one in same))
        assert (mispredicted, predicted) == (
            sum(one.mispredicted for one in same),
            sum(not one.mispredicted for one in same),
        )
    rows = profile.branches.to_pylist()
    assert len({(row["time_ns"], row["thread"]) for row in rows}) == len(STACKS)
    assert {row["interval_ns"] for row in rows} == {0}
    times = sorted({row["time_ns"] for row in rows})
    assert times == profile.samples.column("time_ns").to_pylist()


def test_cycles_that_no_hardware_counted_are_not_known() -> None:
    stacks = [
        [Taken(*(one.source, one.source_offset, one.target, one.target_offset, one.kind, 0)) for one in STACKS[0]]
    ]
    profile = read(format_text(stacks))
    assert profile.branches.column("cycles").null_count == profile.branches.num_rows > 0
    assert profile.branches.column("iteration_cycles").null_count == profile.branches.num_rows


@pytest.mark.parametrize(
    ("text", "source", "target"),
    [
        ("operator/(Path const&)+0x1d(/a/b)/f+0x2(/a/b)", ("operator/(Path const&)", 0x1D), ("f", 2)),
        ("f+0x1(/a/b)/operator/(int)+0x2(/a/b)", ("f", 1), ("operator/(int)", 2)),
        ("run(void (*)(int))+0x1/main+0x2", ("run(void (*)(int))", 1), ("main", 2)),
        ("[unknown]([unknown])/main+0x2(/x)", ("[unknown]", None), ("main", 2)),
        ("[unknown]/[unknown]", ("[unknown]", None), ("[unknown]", None)),
        ("f+0x1(/a (1)/b (deleted)+0x55)/g+0x2(/a (1)/b (deleted)+0x66)", ("f", 1), ("g", 2)),
    ],
)
def test_symbols_with_slashes_and_parentheses_are_divided(
    text: str, source: tuple[str, int | None], target: tuple[str, int | None]
) -> None:
    found = parse_entry(text.encode())
    assert found is not None
    assert [(place.symbol, place.offset) for place in found] == [source, target]


@pytest.mark.parametrize("text", ["", "/", "0x1", "0x1/", "/0x1", "f/g", "f+0x1/g", "0xg/0x1", "f+0x1/" + "x" * 9000])
def test_texts_that_are_no_branch_are_refused(text: str) -> None:
    assert parse_entry(text.encode()) is None


def test_entries_that_cannot_be_read_are_losses_and_divide_loops() -> None:
    stack = [INNER] * 4
    good = "".join(format_entry(one) for one in stack)
    entries = [format_entry(one) for one in stack]
    bad = f"{entries[0]}{entries[1]}0x40/broken/P/-/-/3 {entries[2]}{entries[3]}"
    text = format_text([stack, stack], entry=lambda one: "").splitlines(keepends=True)
    text[2], text[5] = f"{good}\n", f"{bad}\n"
    profile = read("".join(text))
    assert losses_of(profile) == {losses.BAD_BRANCH: 1}
    assert (
        "0x40/broken" in profile.losses.to_pylist()[0]["example"]
        and "line 6" in profile.losses.to_pylist()[0]["example"]
    )
    assert sums_of(profile, "count", "iterations") == {("work", 0x30, "work", 0x20, "COND"): (8, 3 + 2)}
    assert profile.samples.num_rows == 2


@pytest.mark.parametrize("rest", ["0x1/0x2/P/-/-/", "ilen: 3 insn: 0f 1f", "work+0x1(/x)/wor"])
def test_text_behind_a_branch_stack_is_a_loss(rest: str) -> None:
    text = format_text([[INNER]], chain=False).rstrip("\n")
    profile = read(f"{text}{rest}\n")
    assert losses_of(profile) == {losses.BAD_BRANCH: 1}
    assert sum(profile.branches.column("count").to_pylist()) == 1


def test_branches_that_were_not_taken_are_left_out() -> None:
    entries = (
        format_entry(INNER) + format_entry(INNER).replace("/P/", "/PN/") + format_entry(INNER).replace("COND/-", "/-")
    )
    text = format_text([[INNER]], entry=lambda one: entries)
    assert sums_of(read(text), "count") == {
        ("work", 0x30, "work", 0x20, "COND"): (1,),
        ("work", 0x30, "work", 0x20, None): (1,),
    }


def test_a_thread_named_like_an_entry_keeps_its_samples() -> None:
    text = format_text(STACKS, chain=False).replace("work 10", "a/P/-/-/1 10")
    profile = read(text)
    assert profile.samples.num_rows == len(STACKS)
    assert sum(profile.branches.column("count").to_pylist()) == sum(map(len, STACKS))
    assert set(profile.threads.column("name").to_pylist()) == {"a/P/-/-/1"}


@pytest.mark.parametrize("chain", [True, False])
@pytest.mark.parametrize("size", [100, 1000, 5000])
def test_chunks_do_not_change_the_result(monkeypatch: pytest.MonkeyPatch, size: int, chain: bool) -> None:
    text = format_text(STACKS, chain=chain).replace("\n", "\r\n")
    whole = read(text)
    monkeypatch.setattr(perf_script, "CHUNK_BYTES", size)
    parts = perf_script.read(io.BytesIO(text.encode()))
    assert sums_of(parts, "count", "iterations", "cycles") == sums_of(whole, "count", "iterations", "cycles")
    assert parts.samples.equals(whole.samples)


def test_many_rows_are_added_up_for_intervals_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    stacks = sample_stacks(200)
    text = format_text(stacks)
    exact = read(text)
    monkeypatch.setattr(branches, "MAX_ROWS", 100)
    coarse = read(text)
    assert coarse.branches.num_rows <= 100 < exact.branches.num_rows
    assert sums_of(coarse, *branches.SUMS) == sums_of(exact, *branches.SUMS)
    interval = coarse.branches.column("interval_ns")[0].as_py()
    assert interval >= branches.FIRST_INTERVAL_NS and not losses_of(coarse)
    assert set(coarse.branches.column("time_ns").to_pylist()) <= set(exact.branches.column("time_ns").to_pylist())


def test_branches_beyond_what_is_kept_are_losses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(branches, "MAX_ROWS", 6)
    profile = read(format_text(STACKS))
    rare = losses_of(profile)[losses.RARE_BRANCH]
    assert rare and rare + sum(profile.branches.column("count").to_pylist()) == sum(map(len, STACKS))


def test_too_many_distinct_branches_are_losses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perfloom.ingest.perf_text.branch_stacks.MAX_EDGES", 2)
    profile = read(format_text(STACKS))
    assert profile.branch_edges.num_rows == 2
    assert losses_of(profile)[losses.BRANCHES_BEYOND] + sum(profile.branches.column("count").to_pylist()) == 12 * 16


@given(
    st.lists(
        st.tuples(st.integers(0, 4000), st.sampled_from(["", "/", "\n", "\t", "(", "0x", "/P/-/-/9 ", "\0", " : "]))
    ),
    st.booleans(),
)
def test_damaged_texts_are_read(changes: list[tuple[int, str]], chain: bool) -> None:
    text = format_text(STACKS[:3], chain=chain)
    for at, new in changes:
        text = text[:at] + new + text[at + 1 :]
    profile = perf_script.read(io.BytesIO((format_text(STACKS[:1]) + text).encode()))
    assert find_error(profile) is None
    assert sum(profile.branches.column("count").to_pylist()) <= 10_000


def test_an_iteration_ends_where_the_loop_is_left() -> None:
    loop = EdgePlaces(0, 0x30, 0, 0x20, True)
    inside, callee, leave = (
        EdgePlaces(0, 0x24, 0, 0x28, False),
        EdgePlaces(1, 9, 0, 0x2D, False),
        EdgePlaces(0, 0x40, 2, 0, False),
    )
    places = [loop, inside, callee, leave]
    # The newest first.
    assert trace_loops((0, 2, 1, 0, 0), places).iterations == ((0, 4, 3), (0, 3, 0))
    found = trace_loops((0, 3, 0), places)
    assert found.iterations == () and found.exits == (0,)
    assert trace_loops((0, -1, 0), places).iterations == (), "nobody knows what happened between"


def test_calls_and_returns_close_no_loop() -> None:
    assert is_backward(1, 9, 1, 5, "COND") and is_backward(1, 9, 1, 9, "") and is_backward(1, 9, 1, 0, "UNCOND")
    assert not is_backward(1, 9, 1, 5, "RET") and not is_backward(1, 9, 1, 0, "")
    assert (
        not is_backward(1, 9, 2, 5, "COND")
        and not is_backward(1, 5, 1, 9, "COND")
        and not is_backward(-1, 9, -1, 5, "")
    )


def test_only_recordings_with_branch_stacks_are_printed_with_them() -> None:
    event = b"# event : name = cycles, , type = 0, sample_type = IP|TID|TIME%s, disabled = 1%s\n"
    assert script_header.header_has_branch_stacks(event % (b"|BRANCH_STACK", b", branch_sample_type = USER|ANY"))
    assert not script_header.header_has_branch_stacks(event % (b"", b""))
    assert not script_header.header_has_branch_stacks(
        event % (b"|BRANCH_STACK", b", branch_sample_type = USER|CALL_STACK|NO_FLAGS|NO_CYCLES")
    )
    assert "brstacksym" in perf_tool.Attempt().adapt(event % (b"|BRANCH_STACK", b"")).fields
    older = perf_tool.Attempt(fields=("comm", "event", "brstacksym", "symoff")).without("Invalid field requested.")
    assert older is not None and older.fields == ("comm", "event", "symoff")


def test_perf_prints_the_branch_stacks_of_a_recording(tmp_path: Path) -> None:
    perf = require("perf")
    raw = zstandard.ZstdDecompressor().stream_reader((paths.DATA / "perf" / "spin.perf.data.zst").read_bytes()).read()
    recording, scratch = tmp_path / "lbr.perf.data", tmp_path / "scratch"
    scratch.mkdir()
    recording.write_bytes(add_branch_stacks(raw, [(0, -2), (4, -8)]))
    with perf_tool.open_script(perf, recording, scratch) as script:
        profile = perf_script.read(script)  # type: ignore[arg-type]
    assert profile.samples.num_rows and find_error(profile) is None
    assert sum(profile.branches.column("count").to_pylist()) == 2 * profile.samples.num_rows
    assert sum(profile.branches.column("cycles").to_pylist()) == 10 * profile.samples.num_rows
    assert losses.BAD_BRANCH not in losses_of(profile)
