"""The script of docs/how-to/pytorch-advice.md, shortened and recorded, yields the findings that the page lists."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from textwrap import indent

import pytest

from perfloom.analysis.advice.findings import find_advice
from perfloom.domain.selection import Selection
from perfloom.readers import pytorch
from tests.recording.recorders.test_torch_inject import Runner
from tests.support.parts import require
from tests.test_docs import DOCS, load_script

LOOP = "for pictures, places in loader:\n"


@pytest.mark.slow
def test_script_of_the_page_yields_its_findings(tmp_path: Path) -> None:
    require("torch")
    program, _ = load_script("screenshots").scripts()
    runner = Runner(tmp_path, double=False)
    # Nine batches are enough for the schedule.
    ran = runner(program.replace("return 4000", "return 288"), steps="2,1,5,1", memory="1", OMP_NUM_THREADS="1")
    assert ran.status == 0 and ran.output.startswith("9 steps in "), ran.errors
    profile = pytorch.read(io.BytesIO(json.dumps(ran.only).encode()))
    found = {one.rule.key: one.finding.measured for one in find_advice(profile, Selection())}
    assert found["dataloader"] > 5 and found["growth"] > 9 * 2**20
    calls = [event.get("name") for event in ran.only["traceEvents"]]
    assert [calls.count(f"aten::{name}") for name in ("convolution", "select")] == [20, 20_480]


def test_programs_of_the_page_compile() -> None:
    """The script, the changed script, and the script with the lines of the third way."""
    program, changed = load_script("screenshots").scripts()
    page = (DOCS / "how-to" / "pytorch-advice.md").read_text(encoding="utf-8")
    lines = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[1]
    before, after = lines.split(f"{LOOP}    ...\n")
    by_hand = program.replace(f"    {LOOP}", f"{indent(before, '    ')}    {LOOP}")
    by_hand = by_hand.replace("    spent = ", f"{indent(after, '    ')}    spent = ")
    assert len({program, changed, by_hand}) == 3 and "profiler.stop()\n    spent" in by_hand
    for text in (program, changed, by_hand):
        compile(text, "train.py", "exec")
