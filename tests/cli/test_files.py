"""Commands on files and results: what they print, where, and how they end."""

from __future__ import annotations

import csv
import gzip
import io
import json
import lzma
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import zstandard

from perfloom.analysis.tables import TABLES
from perfloom.cli import files
from perfloom.domain.csv_cells import escape_csv_cell
from perfloom.exporters import EXPORTERS
from tests.cli.conftest import Run, collapsed
from tests.support import paths
from tests.support.parts import require

DATA = paths.DATA / "perf"
SPIN = str(DATA / "spin.script.txt")
EVENTS = str(DATA / "events.script.txt")


@pytest.fixture
def stored(run: Run) -> str:
    """The id of an imported file."""
    status, out, err = run("import", "--name", "a spin", SPIN)
    assert status == 0, err
    return out.strip()


def test_import_prints_the_id_alone(run: Run) -> None:
    status, out, err = run("import", SPIN)
    assert status == 0
    assert files._ID.fullmatch(out.removesuffix("\n"))
    assert "perfloom: stored" in err
    listed = json.loads(run("list", "--format", "json")[1])
    assert [(row["id"], row["name"], row["format"]) for row in listed] == [
        (out.strip(), "spin.script.txt", "perf-script")
    ]


def test_index_of_a_result_set_brings_its_files(run: Run) -> None:
    index = str(DATA.parent / "perfanalyzer" / "DD.results")
    status, out, err = run("import", index)
    assert status == 0, err
    for source in (out.strip(), index):
        rows = json.loads(run("report", source, "events", "--format", "json")[1])
        values = {row["event"]: row["value"] for row in rows}
        assert (values["cycles"], values["instructions"], values["r1010"]) == (23_815_680_000, 23_189_760_000, None)
    status, _, err = run("import", "--clock", "ms", index)
    assert status == 3 and "has a time unit. Do not set the clock." in err


def test_directory_of_a_database(run: Run, tmp_path: Path) -> None:
    data = DATA.parent / "hpctoolkit"
    for version, index in (("v2", "experiment.xml"), ("v4", "meta.db")):
        status, out, err = run("import", str(data / version))
        assert status == 0, err
        for source in (out.strip(), str(data / version), str(data / version / index)):
            rows = json.loads(run("report", source, "hotspots", "--event", "CPUTIME", "--format", "json")[1])
            assert {row["name"]: row["total"] for row in rows}["solve"] == 1_630_000_000
        listed = json.loads(run("list", "--format", "json")[1])
        assert (listed[0]["name"], listed[0]["format"], listed[0]["threads"]) == (version, "hpctoolkit", 4)
    status, _, err = run("import", str(tmp_path))
    assert status == 3 and "is no database of HPCToolkit" in err
    status, _, err = run("report", str(tmp_path), "hotspots")
    assert status == 3 and "is no database of HPCToolkit" in err


def test_import_by_another_clock(run: Run) -> None:
    """Of a file that does not say in which unit its times are; of any other it is refused."""
    path = str(DATA.parent / "mllm" / "perf.json")
    id = run("import", "--clock", "ms", path)[1].strip()
    assert json.loads(run("report", id, "summary", "--format", "json")[1])["duration_ms"] == 90
    status, _, err = run("import", "--clock", "ms", SPIN)
    assert status == 3 and "has a time unit. Do not set the clock." in err


def test_import_of_several_files_is_one_result(run: Run, tmp_path: Path) -> None:
    packed = tmp_path / "b.gz"
    packed.write_bytes(gzip.compress(Path(EVENTS).read_bytes()))
    status, out, _ = run("import", SPIN, str(packed), "--name", "both")
    assert status == 0
    threads = json.loads(run("report", out.strip(), "threads", "--format", "json")[1])
    assert {row["rank"] for row in threads} == {0, 1}


def test_large_file_is_stored_compressed(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "large.txt"
    path.write_bytes(Path(SPIN).read_bytes() * (1 + (17 << 20) // Path(SPIN).stat().st_size))
    before = path.read_bytes()
    status, out, _ = run("import", str(path))
    assert status == 0
    (kept,) = (tmp_path / "data" / "results" / out.strip() / "original").iterdir()
    assert kept.name == "large.txt.zst"
    assert not kept.is_symlink()
    assert zstandard.ZstdDecompressor().decompressobj().decompress(kept.read_bytes()) == before == path.read_bytes()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"hello\nworld\n", "is unknown"),
        (bytes(5000), "only zero bytes"),
        (None, "does not exist"),
    ],
)
def test_import_of_what_cannot_be_read(run: Run, tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "x"
    if content is not None:
        path.write_bytes(content)
    status, out, err = run("import", str(path))
    assert (status, out) == (3, "")
    assert message in err
    assert "Traceback" not in err
    status, out, err = run("report", str(path), "summary")
    assert (status, out) == (3, "")
    assert message in err or content is None


def test_sparse_file_is_rejected(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    path.touch()
    os.truncate(path, 5_000_000_000)
    for command in (["import", str(path)], ["report", str(path), "summary"]):
        status, _, err = run(*command)
        assert status == 3
        assert "only zero bytes" in err


def test_list_and_delete(run: Run, stored: str) -> None:
    assert stored in run("list")[1]
    (row,) = json.loads(run("list", "--format", "json")[1])
    assert row["recorded"] is None and row["created"].endswith("Z"), "a text of perf script does not tell when"
    assert run("list", "--search", "spin", "--format", "csv")[1].count("\n") == 2
    assert run("list", "--search", "nothing of that", "--format", "json")[1] == "[\n]\n"
    assert run("delete", stored) == (0, "", "")
    assert run("list", "--format", "json")[1] == "[\n]\n"
    status, _, err = run("delete", stored)
    assert status == 2
    assert stored in err
    status, _, err = run("report", stored, "summary")
    assert status == 3
    assert "no result with that id" in err


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """The words that name EVENTS as a result, which needs no reading."""
    data = tmp_path_factory.mktemp("events") / "data"
    return command("import", EVENTS, data=data).stdout.decode().strip(), "--data", str(data)


@pytest.mark.parametrize("table", TABLES)
def test_every_table_in_every_format(run: Run, table: str, events: tuple[str, ...]) -> None:
    status, out, _ = run("report", *events, table, "--format", "json")
    assert status == 0
    data = json.loads(out)
    assert isinstance(data, dict) == TABLES[table].single_row
    rows = [data] if TABLES[table].single_row else data
    names = [column.name for column in TABLES[table].columns]
    assert all(list(row) == names for row in rows)
    lines = list(csv.reader(io.StringIO(run("report", *events, table, "--format", "csv")[1])))
    assert lines[0] == names
    assert len(lines) == len(rows) + 1
    for row, line in zip(rows, lines[1:], strict=True):
        # Keys of threads without a rank begin with a minus, which spreadsheets take for a formula.
        assert ["" if value is None else str(escape_csv_cell(value)) for value in row.values()] == line
    shown = run("report", *events, table)[1]
    assert len(shown.splitlines()) == 1 + (len(names) if TABLES[table].single_row else len(rows))


def test_report_of_a_result_is_that_of_its_file(run: Run, stored: str, tmp_path: Path) -> None:
    """And of the form in which results are kept, there and back."""
    out = tmp_path / "spin.tar"
    assert run("convert", SPIN, "--to", "profile", "-o", str(out))[0] == 0
    again = run("import", str(out))[1].strip()
    for table in TABLES:
        # All tables of a file come from one profile of it.
        known = run("report", stored, table, "--format", "json")
        assert known[0] == 0 and run("report", again, table, "--format", "json") == known
    for source, table in ((SPIN, "hotspots"), (SPIN, "threads"), (str(out), "summary")):
        assert run("report", source, table, "--format", "json") == run("report", stored, table, "--format", "json")


def test_formulas_can_be_added(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    formulas = tmp_path / "formulas.toml"
    formulas.write_text('[[formula]]\nname = "small"\nexpression = "cycles / 1e6"\n', encoding="utf-8")
    monkeypatch.setenv("PERFLOOM_FORMULAS", str(formulas))
    status, out, _ = run("report", str(paths.DATA / "perf-stat" / "by-hand-hardware.txt"), "formulas")
    assert status == 0 and re.search(r"^small +cycles / 1e6 .* 1234.57 ", out, re.M) and "IPC" in out
    formulas.write_text("[[formula]]\nname = 'x'\nexpression = '__import__(\"os\")'\n", encoding="utf-8")
    status, _, err = run("report", str(paths.DATA / "perf-stat" / "by-hand-hardware.txt"), "formulas")
    assert status == 2 and "Formula 1 (x): Character" in err


def test_functions_that_wait_can_be_added(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def states() -> set[str]:
        status, out, _ = run("report", SPIN, "matrix", "--format", "json")
        assert status == 0
        return {row["state"] for row in json.loads(out) if row["module"].endswith("/spin")}

    assert states() == {"computing"}
    monkeypatch.setenv("PERFLOOM_WAITING_FUNCTIONS", "spin")
    assert states() == {"waiting"}
    monkeypatch.setenv("PERFLOOM_WAITING_FUNCTIONS", "(")
    status, _, error = run("report", SPIN, "matrix")
    assert status == 2 and "PERFLOOM_WAITING_FUNCTIONS" in error
    monkeypatch.delenv("PERFLOOM_WAITING_FUNCTIONS")
    assert states() == {"computing"}


def test_path_has_precedence_over_id(run: Run, stored: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path(stored).write_text("x;y 7\n")
    summary = json.loads(run("report", stored, "summary", "--format", "json")[1])
    assert summary["format"] == "collapsed"


@pytest.mark.slow
def test_filters(run: Run) -> None:
    rows = json.loads(run("report", EVENTS, "hotspots", "--event", "page-faults/period=200/", "--format", "json")[1])
    assert {row["event"] for row in rows} == {"page-faults"}
    # By its plain name it is the same.
    plain = run("report", EVENTS, "hotspots", "--event", "page-faults", "--format", "json")
    assert json.loads(plain[1]) == rows
    status, _, err = run("report", EVENTS, "hotspots", "--event", "nothing")
    assert status == 2
    assert "page-faults" in err
    for words in (["--focus", "("], ["--start-ms", "x"], ["--start-ms", "2", "--end-ms", "1"], ["--thread", "none"]):
        status, out, err = run("report", EVENTS, "hotspots", *words)
        assert (status, out) == (2, ""), words
        assert "Traceback" not in err
    one = json.loads(run("report", EVENTS, "threads", "--thread", "worker one", "--format", "json")[1])
    assert {row["name"] for row in one} == {"worker one"}


def test_frames_and_places_are_selected(run: Run, tmp_path: Path) -> None:
    stacks = tmp_path / "stacks.txt"
    stacks.write_text("main;a;b 3\nmain;c;a 5\nmain;d 7\n")

    def collapsed(*words: str) -> set[str]:
        status, out, err = run("convert", str(stacks), "--to", "collapsed", *words, "-o", "-")
        assert status == 0, err
        return set(out.splitlines())

    assert collapsed("--show", "^[ab]$") == {"a;b 3", "a 5"}
    assert collapsed("--show-from", "^[ad]$") == {"a;b 3", "a 5", "d 7"}
    assert collapsed("--focus", "^a$", "--focus", "^b$") == {"main;a;b 3"}
    assert collapsed("--show-from", "^a$", "--hide", "^b$") == {"a 8"}
    rows = json.loads(run("report", str(stacks), "hotspots", "--show-from", "^d$", "--format", "json")[1])
    assert [(row["name"], row["self"]) for row in rows] == [("d", 7)]
    changes = run("diff", str(stacks), str(stacks), "--show", "^a$", "--format", "json", "--absolute")
    assert changes[0] == 0, changes
    assert [(row["name"], row["base_self"]) for row in json.loads(changes[1])] == [("a", 8)]
    threads = json.loads(run("report", EVENTS, "threads", "--format", "json")[1])
    of_host = run("report", EVENTS, "threads", "--host", threads[0]["host"] or "-", "--format", "json")
    assert of_host[0] == 0 and json.loads(of_host[1]) == threads
    for words in (["--process", "none"], ["--host", "none"], ["--show", "("], ["--show-from", "("]):
        status, out, err = run("report", EVENTS, "hotspots", *words)
        assert (status, out) == (2, "") and "Traceback" not in err, words


def test_usage(run: Run) -> None:
    for arguments in (
        ["report", SPIN],
        ["report", SPIN, "nothing"],
        ["report", "summary"],
        ["convert", SPIN],
        ["convert", SPIN, "--to", "nothing"],
        ["convert", SPIN, "--to", "svg", "--kernel"],
        ["convert", "-", "-", "--to", "collapsed"],
        ["diff", SPIN],
        ["diff", "-", "-"],
        ["nothing"],
    ):
        status, out, err = run(*arguments)
        assert (status, out) == (2, ""), arguments
        assert err


def test_neither_a_file_nor_an_id(run: Run) -> None:
    status, out, err = run("report", "no such file", "summary")
    assert (status, out) == (3, "")
    assert "'no such file' is neither an existing file nor the id of a result" in err


def test_convert_to_collapsed(run: Run, stored: str) -> None:
    for switch in ("pid", "tid", "kernel", "jit", "all", "addrs"):
        wanted = sorted((DATA / f"spin.collapsed-{switch}.txt").read_text().splitlines())
        # Of the file itself one is enough.
        for source in (stored, *([SPIN] if switch == "all" else [])):
            status, out, err = run("convert", source, "--to", "collapsed", f"--{switch}")
            assert (status, err) == (0, ""), switch
            assert sorted(out.splitlines()) == wanted, switch


def test_convert_says_which_other_events_there_are(run: Run) -> None:
    first, other = "page-faults", "cpu-clock"
    if f" {first}/" not in Path(EVENTS).read_text().split("\n#\n")[1].split("\n")[0]:
        first, other = other, first
    _, out, err = run("convert", EVENTS, "--to", "collapsed")
    assert f"The output has only {first}" in err
    assert other in err
    assert run("convert", EVENTS, "--to", "collapsed", "--event", first) == (0, out, "")


def unpack_zstd(data: bytes) -> bytes:
    return zstandard.ZstdDecompressor().stream_reader(data).read()


def test_convert_to_what_the_file_is_called(run: Run, tmp_path: Path) -> None:
    begins = {"a.folded": b"worker_one;", "B.SVG": b"<", "c.pb": b"\x1f\x8b", "d.speedscope.json": b'{"$schema"'}
    for name, begin in begins.items():
        assert run("convert", SPIN, "-o", str(tmp_path / name)) == (0, "", "")
        assert (tmp_path / name).read_bytes().startswith(begin), name
    for output in ("-", str(tmp_path / "e.json")):
        status, _, err = run("convert", SPIN, "-o", output)
        assert status == 2 and "--to" in err and ".speedscope.json (speedscope)" in err
    assert not (tmp_path / "e.json").exists()


@pytest.mark.slow
@pytest.mark.parametrize(("ending", "unpack"), [(".zst", unpack_zstd), (".xz", lzma.decompress)])
def test_convert_compresses_according_to_the_suffix(
    run: Run, tmp_path: Path, ending: str, unpack: Callable[[bytes], bytes]
) -> None:
    for name in ("a.folded", "d.trace.json"):
        plain, packed = tmp_path / name, tmp_path / f"{name}{ending}"
        assert run("convert", SPIN, "-o", str(plain)) == (0, "", "")
        assert run("convert", SPIN, "-o", str(packed)) == (0, "", "")
        assert unpack(packed.read_bytes()) == plain.read_bytes()
    assert run("report", SPIN, "hotspots", "--format", "csv", "-o", str(tmp_path / f"j.csv{ending}")) == (0, "", "")
    assert unpack((tmp_path / f"j.csv{ending}").read_bytes()).startswith(b"name,module,")
    # Other tools expect gzip there.
    status, _, err = run("convert", SPIN, "-o", str(tmp_path / f"a.pb{ending}"))
    assert status == 2 and ".folded, .collapsed, .collapsed.txt (collapsed)" in err and ".gz, .zst, .xz" in err


@pytest.mark.slow
def test_convert_packs_what_is_called_so(run: Run, tmp_path: Path) -> None:
    for name in ("a.folded", "b.svg", "c.html", "d.trace.json", "e.speedscope.json", "f.perfloom", "g.perfloom.tar"):
        assert run("convert", SPIN, "-o", str(tmp_path / name)) == (0, "", "")
        assert run("convert", SPIN, "-o", str(tmp_path / f"{name}.gz")) == (0, "", "")
        packed = (tmp_path / f"{name}.gz").read_bytes()
        assert gzip.decompress(packed) == (tmp_path / name).read_bytes(), name
        # The same every time: no name and no time of writing is in it.
        assert packed[3:8] == bytes(5)
    assert run("convert", str(tmp_path / "f.perfloom.gz"), "--to", "collapsed") == run(
        "convert", SPIN, "--to", "collapsed"
    )
    # What is packed by itself is packed once.
    assert run("convert", SPIN, "-o", str(tmp_path / "h.pprof.gz")) == (0, "", "")
    assert gzip.decompress((tmp_path / "h.pprof.gz").read_bytes())[:1] == b"\n"
    assert run("convert", SPIN, "--to", "perfetto", "-o", str(tmp_path / "i.json.gz")) == (0, "", "")
    assert gzip.decompress((tmp_path / "i.json.gz").read_bytes())[:1] == b"{"
    assert run("report", SPIN, "hotspots", "--format", "csv", "-o", str(tmp_path / "j.csv.gz")) == (0, "", "")
    assert gzip.decompress((tmp_path / "j.csv.gz").read_bytes()).startswith(b"name,module,")


def test_convert_into_a_file(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run("convert", SPIN, "--to", "collapsed", "--all", "-o", str(out)) == (0, "", "")
    assert sorted(out.read_text().splitlines()) == sorted((DATA / "spin.collapsed-all.txt").read_text().splitlines())
    out.chmod(0o640)
    assert run("convert", SPIN, "--to", "svg", "-o", str(out)) == (0, "", "")
    assert out.read_text().startswith("<?xml") or "<svg" in out.read_text()
    assert out.stat().st_mode & 0o777 == 0o640
    before = out.read_bytes()
    status, _, _ = run("convert", SPIN, "--to", "collapsed", "--event", "nothing", "-o", str(out))
    assert status == 2
    assert out.read_bytes() == before
    for form in ("collapsed", "speedscope"):
        status, _, err = run("convert", SPIN, "--to", form, "--focus", "nosuch", "-o", str(out))
        assert status == 2 and "Nothing is selected" in err
        assert out.read_bytes() == before
    assert list(tmp_path.glob(".out-*")) == []
    status, _, err = run("convert", SPIN, "--to", "collapsed", "-o", str(tmp_path / "none" / "x"))
    assert status == 4
    assert "cannot be written" in err


@pytest.mark.slow
def test_rows_into_a_file(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "out"
    for words in (("report", SPIN, "hotspots"), ("diff", SPIN, SPIN)):
        rows = json.loads(run(*words, "--format", "json")[1])
        for form in ("parquet", "json", "csv"):
            status, printed, err = run(*words, "--format", form, "-o", str(out))
            # The result of a comparison in one sentence.
            assert (status, printed) == (0, "") and err.count("\n") == (words[0] == "diff")
            if form == "parquet":
                assert pq.read_table(out).to_pylist() == rows
            elif form == "json":
                assert json.loads(out.read_text()) == rows
            else:
                assert len(list(csv.DictReader(out.read_text().splitlines()))) == len(rows)


def test_switches_are_those_of_the_exporters() -> None:
    assert {name: set(exporter.options) for name, exporter in EXPORTERS.items()} == {
        name: set(switches) for name, switches in files.EXPORT_SWITCHES.items()
    }


def test_help_names_every_table() -> None:
    told = re.search(r"Tables: ([\w, \n-]+)\.", files.report.help or "")
    assert told is not None and tuple(re.split(r",\s+", told[1])) == tuple(TABLES)


def test_terminals_are_not_at_the_mercy_of_names(run: Run, tmp_path: Path) -> None:
    path = collapsed(tmp_path, "x", "a;\x1b[2Jb\x9b\u202ec 3\n")
    out = run("report", path, "hotspots")[1]
    assert "\\x1b[2Jb\\x9b\\u202ec" in out
    assert "\x1b" not in out
    assert "\x1b[2Jb\x9b\u202ec" in {
        row["name"] for row in json.loads(run("report", path, "hotspots", "--format", "json")[1])
    }


def command(*arguments: str, data: Path, **options: object) -> subprocess.CompletedProcess[bytes]:
    argv = [sys.executable, "-m", "perfloom.cli", *arguments]
    environment = os.environ | {"PERFLOOM_DATA": str(data), "PERFLOOM_RESERVE_BYTES": "0"}
    return subprocess.run(argv, capture_output=True, env=environment, timeout=120, **options)  # type: ignore[call-overload, no-any-return]


@pytest.mark.slow
def test_standard_input_and_output(tmp_path: Path, short_path: Path) -> None:
    text = Path(SPIN).read_bytes()
    packed = gzip.compress(text)
    done = command("convert", "-", "--to", "collapsed", "--all", data=tmp_path, input=packed)
    assert sorted(done.stdout.split(b"\n")) == sorted((DATA / "spin.collapsed-all.txt").read_bytes().split(b"\n"))
    done = command("import", "--name", "piped", "-", data=short_path / "d", input=text)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout) == 13


def test_closed_pipe_is_silent(tmp_path: Path) -> None:
    """`perfloom report … | head -1` says nothing on standard error."""
    big = tmp_path / "big"
    big.write_text("".join(f"main;function_{i} {i}\n" for i in range(20_000)))
    argv = [sys.executable, "-m", "perfloom.cli", "report", str(big), "hotspots", "--data", str(tmp_path / "d")]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout and process.stderr
    assert process.stdout.readline().startswith(b"name")
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(60) == 141


def test_a_recording_of_perf(run: Run) -> None:
    require("perf")
    recording = str(DATA / "spin.perf.data.zst")
    status, out, _ = run("import", recording)
    assert status == 0
    summary = json.loads(run("report", out.strip(), "summary", "--format", "json")[1])
    assert (summary["format"], summary["samples"]) == ("perf-data", Path(SPIN).read_text().count("\n\n"))
    assert (
        run("report", recording, "threads", "--format", "json")[1]
        == run("report", out.strip(), "threads", "--format", "json")[1]
    )
