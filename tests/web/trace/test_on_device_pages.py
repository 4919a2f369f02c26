"""The pages of what runs on a device: perf.json of mllm, text traces of llama.cpp; and the unit of times, chosen once."""

from __future__ import annotations

import io
import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from perfloom.domain.profile import Profile
from perfloom.readers import llama_trace, mllm
from perfloom.store import Store
from tests.support import paths
from tests.tracers.test_trace_header import built
from tests.web.conftest import HOSTILE, Browser
from tests.web.html import read

DATA = paths.DATA


def of_mllm() -> Profile:
    """Two types of device, operators within and beside one another, one block that is never freed."""
    with open(DATA / "mllm" / "perf.json", "rb") as file:
        return mllm.read(file, "perf.json")


def told(text: str) -> str:
    """The text of a page, with one blank for each run of white space."""
    return " ".join(" ".join(read(text).text).split())


def test_a_unit_of_times_is_chosen_once_and_holds_everywhere(
    browser_client: Browser, stored: Callable[..., str]
) -> None:
    id = stored(of_mllm())
    stored(of_mllm(), "other0000000")
    pages = [f"/results/{id}{page}" for page in ("", "/flamegraph", "/timeline", "/hotspots", "/operators", "/memory")]
    pages += [f"/compare{page}?base={id}&other=other0000000" for page in ("", "/operators")]
    for page in pages:
        text = browser_client.page(f"{page}{'&' if '?' in page else '?'}unit=ns")
        links = [urlsplit(link) for link in read(text).links]
        own = [link for link in links if link.path.startswith((f"/results/{id}", "/compare"))]
        others = {(link.path, *parse_qs(link.query).get("unit", ())) for link in own if "/export/" not in link.path}
        without = {path for path, *unit in others if not unit and "/original/" not in path}
        # The one that takes it away again; what changes a result shows no times.
        assert without <= {page.split("?")[0], "/compare", f"/results/{id}/edit", f"/results/{id}/delete"}, page
        assert 'aria-current="true">ns</a>' in text and "µs" not in told(text).replace("Auto ns µs ms s", ""), page
    assert "50,000 ns" in told(browser_client.page(f"/results/{id}/operators?unit=ns&name=attention"))
    assert "0.0500 ms" in told(browser_client.page(f"/results/{id}/operators?unit=ms&name=attention"))
    assert "50.0 µs" in told(browser_client.page(f"/results/{id}/operators?name=attention")), "the next one is free"
    assert "unit must be one of ns, us, ms, s" in told(browser_client.page(f"/results/{id}?unit=min", 400))


def of_llama(slower_ns: int = 0) -> Profile:
    """Two layers, on two threads."""
    lines = ["start_time: 1"]
    for number, name in enumerate(("matmul_ffn_up-0", "matmul_ffn_up-1", "add_ffn_out-1", "get_rows_inp_embd")):
        begin, end = 100 * number, 100 * number + 10 * (number + 1)
        lines += [
            f"thr: {number // 2}, name: {name}_{number}, time: {begin}",
            f"thr: {number // 2}, name: end_{name}_{number}, time: {end}.{slower_ns:03}",
        ]
    return llama_trace.read(io.BytesIO("\n".join([*lines, "end_time: 999", ""]).encode()))


def test_operators_by_kind_tensor_and_layer(browser_client: Browser, stored: Callable[..., str]) -> None:
    """Only what the result tells is offered."""
    llama, other = stored(of_llama()), stored(of_llama(500), "other0000000")
    page = browser_client.page(f"/results/{llama}/operators?by=layer")
    for word in ("By name", "By kind", "By tensor", "By layer", "By name and call stack"):
        assert f">{word}</a>" in page
    for word in ("By device", "By name and input shapes", "Annotations", "PyTorch", "Device total"):
        assert word not in page
    assert "Layer Share Calls" in told(page) and "1 2 50.000 50.00 50.000 25.000 20.000 30.000" in told(page)
    assert "(none) 1 40.000 40.00" in told(page)
    assert "search=matmul" in browser_client.page(f"/results/{llama}/operators?by=kind")
    assert "by must be one of name, kind, tensor, layer" in told(
        browser_client.page(f"/compare/operators?base={llama}&other={other}&by=device", 400)
    )
    changes = told(browser_client.page(f"/compare/operators?base={llama}&other={other}&by=kind"))
    assert (
        "Kind Status Base µs" in changes
        and "Device self" not in changes
        and "matmul grew 30.000 31.000 +1.000" in changes
    )


def test_missing_data_is_not_shown(browser_client: Browser, stored: Callable[..., str]) -> None:
    """Peaks by type of device, blocks that were never freed; no advice on training, no steps, processes or GPUs."""
    id = stored(of_mllm())
    overview = told(browser_client.page(f"/results/{id}"))
    assert "Peak memory, OpenCL 8.00 KiB 1 block Peak memory, CPU 7.00 KiB 3 blocks, 1 never freed" in overview
    assert "Operators called 4" in overview and "Threads 3" in overview
    for word in ("Advice", "Mean step", "Processes", "GPU", "memory of CPU"):
        assert word not in overview, word
    assert "Nothing was allocated or freed in an operator" not in told(browser_client.page(f"/results/{id}/memory"))
    blocks = told(browser_client.page(f"/results/{id}/memory?device=cpu&table=allocations"))
    assert "1.00 10.000 never" in blocks and "4.00 0.000 90.000 90.000" in blocks
    assert "1.00 KiB, never freed" in browser_client.page(f"/results/{id}/timeline.svg")
    blob = b'{"start_time": 1753865973438000, "end_time": 1753865973438005, "memory_usage": 4096}'
    alone = stored(mllm.read(io.BytesIO(b'{"memory_blobs": [' + blob + b"]}")), "other0000000")
    page = told(browser_client.page(f"/results/{alone}/memory"))
    assert "By operator" not in page and "Peak allocated 4.00 KiB" in page and "Operators" not in page


def test_a_clock_that_was_assumed_can_be_changed(
    browser_client: Browser, stored: Callable[..., str], store: Store
) -> None:
    """The page says which, and the files are read again, into a new result."""
    path = DATA / "mllm" / "perf.json"
    id = stored(of_mllm(), originals=[path])
    page = browser_client.page(f"/results/{id}")
    assert (
        "Clock microseconds, from init_time, which is relative to the Unix epoch" in told(page)
        and f"/results/{id}/again" in page
    )
    answer = browser_client.post(f"/results/{id}/again", clock="ns")
    job = store.jobs.get(answer.headers["Location"].rpartition("/")[2])
    assert answer.status_code == 303 and job.spec == {"files": ["perf.json"], "clock": "ns"}
    assert (store.jobs.directory(job.id) / "artefacts" / "perf.json").read_bytes() == path.read_bytes()
    assert browser_client.post(f"/results/{id}/again", clock="days").status_code == 400
    other = stored(of_llama(), "other0000000")
    assert browser_client.post(f"/results/{other}/again", clock="ns").status_code == 409, "nothing is kept of it"
    assert "/again" not in browser_client.page(f"/results/{other}"), "it tells its clock"


def test_a_program_that_was_traced_with_the_header(
    browser_client: Browser, stored: Callable[..., str], tmp_path: Path
) -> None:
    """A program is built and run, and its trace read: its pages show what it did."""
    program = built(tmp_path, "decode", "gcc", "c11")
    made = subprocess.run([program, "trace.txt", "4"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    assert len(made.split()) == 4
    with open(tmp_path / "trace.txt", "rb") as file:
        profile = llama_trace.read(file, "trace.txt")
    assert profile.meta.complete and not profile.losses.num_rows
    id = stored(profile, originals=[tmp_path / "trace.txt"])
    overview = told(browser_client.page(f"/results/{id}"))
    assert "Threads 3" in overview and "Prefill" in overview and "8 tokens in" in overview and "4 tokens in" in overview
    assert "Where the time of a step went" in overview and "GPU" not in overview and "PyTorch" not in overview
    steps = told(browser_client.page(f"/results/{id}/steps"))
    assert all(f"decode {number} " in steps for number in range(1, 5)) and "Tokens Tokens/s" in steps
    # Two layers of six operators, and three around them; five evaluations, on three threads.
    by_layer = browser_client.page(f"/results/{id}/operators?by=layer&kind=operator&sort=name")
    calls = re.findall(
        r'<th scope="row"[^>]*>.*?</span>(.*?)</th>.*?<td class="num" title="(.*?)"', by_layer, re.DOTALL
    )
    assert calls == [("(none)", "45"), ("0", "90"), ("1", "90")]
    assert "matmul_ffn_down-1" in browser_client.page(f"/results/{id}/operators")
    for page in ("flamegraph.svg", "timeline.svg"):
        assert "matmul_ffn_up" in browser_client.page(f"/results/{id}/{page}")
    assert "kv cache, bytes" in browser_client.page(f"/api/v1/results/{id}/timeline")


def damaged_mllm() -> bytes:
    """Every name hostile, and all that can be wrong with a file."""
    init = 1753865973438000
    blocks = [
        {
            "device_type": name,
            "start_time": init + at,
            "end_time": init + 9 * (at % 3),
            "memory_usage": at,
            "uuid": at % 4,
        }
        for at, name in enumerate(HOSTILE)
    ]
    operators = [
        {"device_type": name, "op_name": name, "start_time": init + at, "end_time": init + 2 * at - 3}
        for at, name in enumerate(HOSTILE)
    ]
    wrong = [{"memory_usage": -1, "uuid": 1, "start_time": init, "end_time": 0}, {}, None]
    return json.dumps({"init_time": init, "memory_blobs": blocks + wrong, "op_blobs": [*operators, *wrong]}).encode()


def damaged_llama() -> bytes:
    """Threads by turns, names with all signs, ends and beginnings without each other, Windows' line ends, cut off."""
    names = [name.replace("\n", " ") for name in HOSTILE]
    lines = ["start_time: 1"]
    for at, name in enumerate([*names, "matmul_a, b: c-1"]):
        lines.append(f"thr: {at % 2}, name: {name}_{at}, time: {9007199254740 + 10 * at}")
        lines.append(f"thr: {names[at % 3]}, name: end_{name}_{at - at % 2}, time: {9007199254745 + 10 * at}.5")
        lines.append(f"thr: {at % 2}, counter: {name}, value: {at}, time: {9007199254745 + 10 * at}")
        lines.append(f"thr: {at % 2}, name: end_{name}_{at}, time: {9007199254748 + 10 * at}")
    return "\r\n".join(lines)[:-20].encode()


def test_pages_of_damaged_and_hostile_files(browser_client: Browser, stored: Callable[..., str]) -> None:
    """Each page that the result says it has is whole, in every unit."""
    profiles = (
        mllm.read(io.BytesIO(damaged_mllm())),
        llama_trace.read(io.BytesIO(damaged_llama())),
        mllm.read(
            io.BytesIO(
                b'{"init_time": 0, "memory_blobs": [], "op_blobs": [{"op_name": "f", "start_time": 1, "end_time": 1}]}'
            )
        ),
    )
    for number, profile in enumerate(profiles):
        id = stored(profile, f"damaged{number}0000", name=HOSTILE[number])
        assert number == 2 or profile.losses.num_rows
        tabs = {urlsplit(link).path for link in read(browser_client.page(f"/results/{id}")).links}
        pages = sorted(tab for tab in tabs if tab.startswith(f"/results/{id}") and tab.count("/") <= 3)
        assert f"/results/{id}/operators" in pages and f"/results/{id}/timeline" in pages, pages
        for page in pages:
            text = browser_client.page(f"{page}?unit=s")
            assert read(text).faults == [] and "\u202e" not in text, page
        for by in ("device", "layer"):
            assert read(browser_client.page(f"/results/{id}/operators?by={by}")).faults == []
