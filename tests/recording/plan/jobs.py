"""Planned jobs run on this machine, by any shell: what a transport and the steps do, in small."""

from __future__ import annotations

import os
import secrets
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from perfloom.domain.host_facts import HostFacts
from perfloom.domain.jobs import JobSpec
from perfloom.domain.rank_state import BUILD_IDS_FILE
from perfloom.domain.targets import Target, TargetFacts
from perfloom.recording.job_status import JobStatus, RankStatus
from perfloom.recording.plan import plan as plans

HERE = Target("far", sudo=True)
LIMIT_S = 90.0
FACTS = TargetFacts(HostFacts(host="here", options=("-N", "--no-bpf-event"), stat_options=("-j",)))
"""What every perf can that these tests run with. Without the second option each recording costs root a second."""


def new_id() -> str:
    """An id as the store makes them: none is used twice, also by tests at the same time."""
    return secrets.token_hex(6)


@dataclass
class PlannedJob:
    """A job whose plan is in `directory`. shell: of its scripts. prefix: of every command line."""

    spec: JobSpec
    directory: Path
    target: Target = HERE
    id: str = field(default_factory=new_id)
    shell: Path = Path("/bin/sh")
    facts: TargetFacts | None = FACTS
    host_environment: Mapping[str, str] = field(default_factory=dict)
    prefix: Sequence[str | Path] = ()
    natives: list[str] = field(default_factory=list)
    output: bytes = b""

    def run(self, script: str) -> subprocess.CompletedProcess[bytes]:
        """What a transport does."""
        return subprocess.run(
            [*self.prefix, self.shell, "-c", script],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env={**os.environ, **self.host_environment},
            cwd="/",
            timeout=LIMIT_S,
        )

    def well(self, script: str) -> bytes:
        """What a script printed that is to go well."""
        done = self.run(script)
        assert done.returncode == 0, (done, self.log())
        return done.stdout

    @property
    def place(self) -> str:
        return str(self.directory)

    def lay_down(self) -> plans.Plan:
        """Make its directory and put the files there."""
        plan = plans.make_plan(self.spec, self.target, self.facts, self.id, self.place)
        self.well(plans.create_directory_script(self.place))
        for name, text in plan.files.items():
            path = self.directory / name
            path.write_bytes(text.replace("/bin/sh", str(self.shell)).encode("utf-8", "surrogateescape"))
            path.chmod(0o644)
        return plan

    def start(self) -> PlannedJob:
        """Lay it down and start all its submissions."""
        for number in range(len(self.lay_down().submissions)):
            self.natives.append(self.begin(number))
        return self

    def begin(self, number: int = 0) -> str:
        """Start one submission."""
        script = plans.submit_script(self.target, self.spec, self.id, self.place, number)
        done = self.run(script.replace("/bin/sh", str(self.shell)))
        return plans.parse_submit_output(self.target, done.stdout.decode(), done.stderr.decode(), done.returncode)

    def look(self, most_output: int = 1 << 20) -> JobStatus:
        """What is to be seen of it; its output is kept."""
        followed = [plans.PollRequest(self.id, self.place, len(self.output))]
        found = plans.parse_poll_output(followed, self.well(plans.poll_script(followed, most_output)))[self.id]
        assert found.directory_exists
        self.output += found.output
        return found.status

    def until(self, reached: Callable[[JobStatus], object], limit_s: float = LIMIT_S) -> JobStatus:
        """The first sight of which `reached` says yes."""
        end = time.monotonic() + limit_s
        while not reached(sight := self.look()):
            assert time.monotonic() < end, (sight, self.log())
            time.sleep(0.1)
        return sight

    def until_ended(self) -> JobStatus:
        """The sight when all has ended."""
        return self.until(
            lambda sight: sum(one.exit_status is not None for one in sight.submissions) >= max(1, len(self.natives))
        )

    def until_recording(self, count: int = 1) -> JobStatus:
        """The sight when so many ranks' programs run, with perf there to see it."""
        return self.until(lambda sight: sum(running(self.id, one) for one in sight.ranks) >= count)

    def end(self, *, gently: bool) -> None:
        """Have it ended."""
        self.well(plans.cancel_script(self.place, gently=gently))

    def listed(self) -> dict[str, int]:
        """Its artefacts with their sizes."""
        found = dict(plans.parse_list_output(self.well(plans.list_script(self.place, self.spec)), self.spec))
        # Next to each text of a recording of this perf; test_code_files tests them.
        return {path: size for path, size in found.items() if not path.endswith(f"/{BUILD_IDS_FILE}")}

    def state(self, path: str) -> dict[str, str]:
        """A state file, the last line of each key."""
        lines = (self.directory / path).read_text(errors="replace").splitlines()
        return {key: value for key, _, value in (line.partition(" ") for line in lines)}

    def text(self, path: str) -> str:
        """The text of a rank's recording."""
        found = next((self.directory / path).glob("perf.script*"))
        tool = {".zst": ["zstd", "-dc"], ".gz": ["gzip", "-dc"]}.get(found.suffix, ["cat"])
        return subprocess.run([*tool, found], capture_output=True, check=True).stdout.decode(errors="replace")

    def samples(self, path: str) -> int:
        """How many samples a rank's recording has."""
        return sum(1 for line in self.text(path).splitlines() if "cpu-clock" in line and not line.startswith("#"))

    def log(self) -> str:
        """All it has to say, for a failure's message."""
        paths = [*self.directory.glob("sub*.*"), *self.directory.glob("run*/**/state"), self.directory / "output"]
        return "\n".join(f"{path}:\n{path.read_text(errors='replace')[-1500:]}" for path in paths if path.is_file())

    def survivors(self) -> list[str]:
        """Command lines of the processes that are left of it."""
        return marked(f"PERFLOOM_JOB={self.id}")

    def until_gone(self) -> None:
        """Return when no process is left."""
        end = time.monotonic() + 20
        while left := self.survivors():
            assert time.monotonic() < end, left
            time.sleep(0.1)


def marked(text: str) -> list[str]:
    """Command lines of the processes with that text in their environment."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if text.encode() in (place / "environ").read_bytes():
                line = (place / "cmdline").read_bytes()
                if line:
                    found.append(f"{place.name}: {line.replace(bytes(1), b' ').decode(errors='replace')}")
        except OSError:
            continue
    return found


def running(job_id: str, rank: RankStatus) -> bool:
    """Whether a rank's program runs; perf has its environment too."""
    place = "all" if rank.rank is None else rank.rank
    mark = f"PERFLOOM_PART={job_id}/{rank.run}/{place}/"
    return rank.state == "recording" and any(" record " not in line for line in marked(mark))
