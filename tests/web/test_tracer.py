"""The page of the tracer: what it shows can be copied, compiled, run and imported, and the documentation has the same."""

import io
import re
import shlex
import subprocess
from html import unescape
from pathlib import Path

import pytest

from perfloom.domain.tables import get_strings
from perfloom.readers import detect_format
from tests.support import paths
from tests.support.parts import require
from tests.web.conftest import Browser

ROOT = paths.ROOT
WANTED = {
    "example.c": ({"decode": 4, "layer": 12}, {"tokens": 4}, "gcc", "c11"),
    "example.cpp": (
        {"request 0": 1, "request 1": 1, "request 2": 1, "parse": 3, "answer": 3},
        {"sum": 3},
        "g++",
        "c++11",
    ),
}


@pytest.mark.parametrize("file", WANTED)
def test_the_examples_of_the_page_work(browser_client: Browser, tmp_path: Path, file: str) -> None:
    page = browser_client.page("/tracer")
    slices, counters, compiler, standard = WANTED[file]
    code, command = re.findall(
        rf'aria-label="{re.escape(file)}">\n(.*?)</pre>.*?data-copy="(c[^"]*)"', page, re.DOTALL
    )[0]
    (tmp_path / file).write_text(unescape(code))
    header = re.search(r'href="([^"]*perfloom_trace\.h)"', page)
    assert header
    (tmp_path / "perfloom_trace.h").write_bytes(browser_client.client.get(header[1]).data)
    words = shlex.split(unescape(command))
    subprocess.run(
        [require(compiler), *words[1:], f"-std={standard}", "-Wall", "-Wextra", "-Werror"], cwd=tmp_path, check=True
    )
    subprocess.run([tmp_path / "example"], cwd=tmp_path, check=True)
    data = (tmp_path / "trace.txt").read_bytes()
    profile = detect_format(data[:4096], "trace.txt").read(io.BytesIO(data), "trace.txt")
    names = get_strings(profile.functions, "name")
    found = [names[row["function"]] for row in profile.slices.to_pylist()]
    assert {name: found.count(name) for name in found} == slices
    assert dict(zip(get_strings(profile.series, "name"), [profile.counters.num_rows], strict=True)) == counters
    assert profile.losses.num_rows == 0


def test_the_documentation_has_the_same() -> None:
    page = (ROOT / "docs/how-to/trace-your-program.md").read_text(encoding="utf-8")
    assert f"```c\n{(ROOT / 'static/tracers/example.c').read_text(encoding='utf-8')}```" in page


def test_the_way_there(browser_client: Browser) -> None:
    assert 'href="/tracer"' in browser_client.page("/import")
