"""What is compared: commands on the same file, by suites.

All times are those of whole commands, from the start of the process to its end, because that is what a user waits for.
"""

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from . import programs
from .inputs import Inputs

Argv = list[str | Path]

_PANDAS = """
import json, pandas, sys
with open(sys.argv[1], encoding="utf-8") as file:
    pandas.DataFrame(json.load(file)["traceEvents"])
"""
_HTA = """
import sys
from hta.common.trace import Trace
trace = Trace(trace_files={0: sys.argv[1]}, trace_dir="")
trace.load_traces(use_multiprocessing=False)
assert len(trace.get_trace(0))
"""
_TENSORBOARD = """
import sys
from torch_tb_profiler.io.cache import Cache
from torch_tb_profiler.profiler.data import RunProfileData
with Cache() as cache:
    assert RunProfileData.parse("worker", 1, sys.argv[1], cache.cache_dir).events
"""
_PARSE = 'JSON.parse(require("fs").readFileSync(process.argv[1], "utf8")).traceEvents.length'
_PERFESSOR = """
const [root, path] = process.argv.slice(1);
const fs = require("fs");
const source = (name) =>
    fs.readFileSync(`${root}/${name}`, "utf8").replace(/^import .*$/gm, "").replace(/^export /gm, "");
const self = {};
new Function("self", source("utils/eventClassifier.js") + source("workers/traceProcessor.worker.js"))(self);
let complete = false;
self.postMessage = (message) => {
    if (message.type === "error") throw new Error(message.error);
    complete ||= message.type === "complete";
};
self.onmessage({ data: { type: "process", data: fs.readFileSync(path, "utf8") } });
if (!complete) throw new Error("no result");
"""
_SPEEDSCOPE = """
const [importer, path] = process.argv.slice(1);
const data = require("fs").readFileSync(path);
const buffer = data.buffer.slice(data.byteOffset, data.byteOffset + data.length);
require(importer).importProfilesFromArrayBuffer(path, buffer).then((group) => {
    if (!group || !group.profiles.length) throw new Error("no profile");
});
"""
_MEMORY = "--max-old-space-size=16000"


@dataclass(frozen=True)
class Command:
    """A command of a suite. ours: whether it is Perfloom. out: its output, a name in the folder. note: what it does
    less or more than the first command of Perfloom."""

    name: str
    argv: Argv
    ours: bool = False
    out: str | None = None
    note: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Suite:
    """Commands on one file. make_input: makes it. commands: functions that return a command or raise MissingPeer; the
    first is the command of Perfloom with which all are compared."""

    name: str
    title: str
    make_input: Callable[[Inputs], Path]
    commands: tuple[Callable[[Path, Path], Command], ...]


def _pipe(name: str, script: str, *words: str | Path, note: str = "") -> Command:
    """A pipeline. The words are its arguments $1, $2 …"""
    return Command(name, ["sh", "-c", script, "sh", *words], out="theirs", note=note)


def _ours(name: str, *words: str | Path, note: str = "") -> Command:
    return Command(name, [*programs.PERFLOOM, *words], ours=True, out="ours", note=note)


def _import(path: Path, folder: Path) -> Command:
    return _ours("perfloom import", "import", path, note="stores a result with all samples, which the pages show")


def _collapse(path: Path, folder: Path) -> Command:
    return _ours(
        "perfloom convert --to collapsed", "convert", path, "--to", "collapsed", note="prints collapsed stacks"
    )


def _to_pprof(path: Path, folder: Path) -> Command:
    return _ours("perfloom convert --to pprof", "convert", path, "--to", "pprof", "-o", folder / "ours.pb.gz")


def _hotspots(path: Path, folder: Path) -> Command:
    return _ours("perfloom report hotspots", "report", path, "hotspots", note="prints the functions")


def _script(path: Path, folder: Path) -> Command:
    argv: Argv = [programs.PERF.require(), "script", "--no-inline", "-i", path]
    return Command("perf script --no-inline", argv, out="theirs", note="only prints the samples")


def _stackcollapse(path: Path, folder: Path) -> Command:
    perf, tool = programs.PERF.require(), programs.STACKCOLLAPSE.require()
    return _pipe(
        "perf script | stackcollapse-perf.pl", '"$1" script -i "$2" | perl "$3"', perf, path, tool, note="no samples"
    )


def _flamegraph(path: Path, folder: Path) -> Command:
    perf, tool, graph = programs.PERF.require(), programs.STACKCOLLAPSE.require(), programs.FLAMEGRAPH.require()
    script = '"$1" script -i "$2" | perl "$3" | perl "$4"'
    return _pipe("… | flamegraph.pl", script, perf, path, tool, graph, note="one SVG")


def _inferno(path: Path, folder: Path) -> Command:
    perf, tool = programs.PERF.require(), programs.INFERNO.require()
    return _pipe(
        "perf script | inferno-collapse-perf", '"$1" script -i "$2" | "$3"', perf, path, tool, note="no samples"
    )


def _inferno_graph(path: Path, folder: Path) -> Command:
    tool, graph = programs.INFERNO_GRAPH.require(), folder / "inferno.svg"
    argv: Argv = [tool, "--no-inline", "--perfdata", path, "-o", graph]
    return Command("perf script, inferno (cargo-flamegraph)", argv, out="theirs", note="one SVG")


def _perfparser(path: Path, folder: Path) -> Command:
    argv: Argv = [programs.HOTSPOT.require(), "--input", path, "--output", folder / "perfparser"]
    return Command("hotspot-perfparser", argv, note="also resolves inlined functions")


def _perf_report(path: Path, folder: Path) -> Command:
    argv: Argv = [programs.PERF.require(), "report", "--stdio", "--no-inline", "-g", "folded", "-i", path]
    return Command("perf report --stdio -g folded", argv, out="theirs", note="no samples")


def _perf_json(path: Path, folder: Path) -> Command:
    argv: Argv = [programs.PERF.require(), "data", "convert", "--force", "-i", path, "--to-json", folder / "perf.json"]
    return Command("perf data convert --to-json", argv)


def _stackcollapse_text(path: Path, folder: Path) -> Command:
    return Command("stackcollapse-perf.pl", ["perl", programs.STACKCOLLAPSE.require(), path], out="theirs")


def _inferno_text(path: Path, folder: Path) -> Command:
    return Command("inferno-collapse-perf", [programs.INFERNO.require(), path], out="theirs")


def _speedscope(path: Path, folder: Path) -> Command:
    node, importer = programs.NODE.require(), programs.SPEEDSCOPE.require()
    return Command("speedscope's importer, Node.js", [node, _MEMORY, "-e", _SPEEDSCOPE, "--", importer, path])


def _json_parse(path: Path, folder: Path) -> Command:
    argv: Argv = [programs.NODE.require(), _MEMORY, "-e", _PARSE, "--", path]
    return Command("JSON.parse, Node.js", argv, note="only parses")


def _perfessor(path: Path, folder: Path) -> Command:
    node, worker = programs.NODE.require(), programs.PERFESSOR.require()
    return Command("Perfessor's worker, Node.js", [node, _MEMORY, "-e", _PERFESSOR, "--", worker.parents[1], path])


def _pandas(path: Path, folder: Path) -> Command:
    return Command("json.load + pandas.DataFrame", [sys.executable, "-c", _PANDAS, path], note="only parses")


def _hta(path: Path, folder: Path) -> Command:
    programs.HTA.require()
    return Command("HTA, load_traces", [programs.PYTHON, "-c", _HTA, path])


def _tensorboard(path: Path, folder: Path) -> Command:
    programs.TENSORBOARD_PROFILER.require()
    return Command("torch-tb-profiler, RunProfileData", [programs.PYTHON, "-c", _TENSORBOARD, path])


def _trace2profile(path: Path, folder: Path) -> Command:
    argv: Argv = [programs.PYTHON, programs.TRACE2PROFILE.require(), path, folder / "theirs.pb"]
    return Command("trace2profile", argv, note="prints a pprof profile")


def _go(path: Path, folder: Path) -> Command:
    argv: Argv = [programs.GO.require(), "tool", "pprof", "-top", path]
    return Command(
        "go tool pprof -top", argv, out="theirs", note="prints the functions", environment={"HOME": str(folder)}
    )


SUITES = (
    Suite(
        "perf-data",
        "perf.data with frame pointers",
        lambda inputs: inputs.recording(),
        (
            *(_import, _collapse, _script, _stackcollapse, _flamegraph, _inferno, _inferno_graph),
            *(_perf_report, _perf_json, _perfparser),
        ),
    ),
    Suite(
        "perf-processes",
        "perf.data of many processes",
        lambda inputs: inputs.processes(),
        (_import, _collapse, _script, _stackcollapse, _perf_report, _perfparser),
    ),
    Suite(
        "perf-text",
        "Text of perf script",
        lambda inputs: inputs.text(),
        (_import, _collapse, _stackcollapse_text, _inferno_text, _speedscope),
    ),
    Suite(
        "pytorch",
        "PyTorch profiler trace",
        lambda inputs: inputs.trace(),
        (_import, _to_pprof, _json_parse, _pandas, _perfessor, _hta, _tensorboard, _trace2profile, _speedscope),
    ),
    Suite("pprof", "pprof profile", lambda inputs: inputs.pprof(), (_hotspots, _import, _go, _speedscope)),
)


def own_environment(folder: Path) -> dict[str, str]:
    """The variables of Perfloom's commands: an empty data directory in `folder`."""
    return {"PERFLOOM_DATA": str(folder / "data"), "PERFLOOM_RUNTIME": str(folder / "run"), "PYTHONPATH": os.getcwd()}
