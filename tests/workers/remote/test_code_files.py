"""Source lines of recordings of other hosts: their binaries and source files are fetched."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from perfloom.analysis.source.missing_code import MissingObject, MissingSource
from perfloom.domain.errors import Unreachable
from perfloom.domain.jobs import CallGraph, JobState
from perfloom.domain.schemas.code import Code
from perfloom.domain.targets import Target
from perfloom.store import Store
from perfloom.store.files.binary_cache import FOLDER, BinaryFolder, is_requested
from perfloom.store.files.code_folder import read_note
from perfloom.store.jobs import Job
from perfloom.workers import code_files
from perfloom.workers.base.context import JobContext
from perfloom.workers.read.code_provider import MAX_SOURCE_BYTES
from perfloom.workers.remote.code_files import TargetFiles
from perfloom.workers.transports import close_all, open_transport
from tests.support import sshd as servers
from tests.support.machine_code import FOLDER as PROGRAMS
from tests.support.sshd import Sshd
from tests.workers.remote.driving import at, run

pytestmark = pytest.mark.heavy
PROGRAM = "sum.c"


@pytest.fixture
def server() -> Iterator[Sshd]:
    """A host with a disk that only it can see."""
    with servers.sshd(small=True) as found:
        yield found
    close_all()


@pytest.fixture
def there(store: Store, server: Sshd) -> Target:
    target = server.target("there", poll_s=0.3)
    store.targets.save(target)
    return target


def on_host(server: Sshd, *argv: str) -> str:
    """What a command prints that sees the disks of the host. Also its root: these tests may run in a chroot."""
    enter = ["nsenter", f"--target={server.process.pid}", "--root", "--mount", "--"]
    return subprocess.run([*enter, *argv], check=True, stdout=subprocess.PIPE, text=True).stdout


def build_there(server: Sshd, *options: str) -> str:
    """Compile a program on the disk that this machine cannot see. Returns its path."""
    folder = f"{server.home}/small"
    on_host(server, "cp", str(PROGRAMS / PROGRAM), f"{folder}/{PROGRAM}")
    options = options or ("-g",)
    on_host(
        server, "gcc", *options, "-O1", "-fno-omit-frame-pointer", f"{folder}/{PROGRAM}", "-lm", "-o", f"{folder}/sum"
    )
    return f"{folder}/sum"


def record_there(context: JobContext, there: Target, program: str, count: str = "4000") -> Job:
    more = {"call_graph": CallGraph.FP, "events": ("cpu-clock:u",), "frequency": 997}
    job = run(context, at(there, program, count, **more), 90)
    assert job.state is JobState.STORED, job.reason
    return job


def code_of(context: JobContext, job: Job) -> Code:
    code = context.store.results.open_code(job.id)
    assert code is not None
    return code


def status_of(code: Code, program: str) -> str:
    return next(row["status"] for row in code.objects.to_pylist() if row["module"] == program)


def text_of(code: Code) -> str | None:
    return next(row["text"] for row in code.files.to_pylist() if row["path"].endswith(PROGRAM))


def list_cached(context: JobContext) -> set[str]:
    root = context.settings.data / FOLDER
    return {path.name for path in root.glob("target-*/*/*")}


def test_lines_of_another_host_are_fetched_once(
    context: JobContext, there: Target, server: Sshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = build_there(server)
    job = record_there(context, there, program)
    code = code_of(context, job)
    assert status_of(code, program) == "complete"
    assert "walk" in code.symbols.column("name").to_pylist()
    assert text_of(code) == (PROGRAMS / PROGRAM).read_text()
    assert {"executable", "sources"} <= list_cached(context)
    assert not is_requested(context.settings.data, job.id) and not read_note(context.store.results.path(job.id))
    assert not [path for path in (context.settings.data / FOLDER).iterdir() if path.name.startswith(".incoming")]

    def refuse(*arguments: object) -> None:
        raise AssertionError("a file was fetched again")

    monkeypatch.setattr(TargetFiles, "_fetch", refuse)
    monkeypatch.setattr(TargetFiles, "_fetch_batch", refuse)
    again = code_of(context, record_there(context, there, program))
    assert status_of(again, program) == "complete"
    assert text_of(again) == (PROGRAMS / PROGRAM).read_text()


def test_separate_debug_information_is_fetched(context: JobContext, there: Target, server: Sshd) -> None:
    program = build_there(server)
    build_id = on_host(server, "readelf", "-n", program).split("Build ID: ")[1].split()[0]
    folder = f"/usr/lib/debug/.build-id/{build_id[:2]}"
    # Only the host sees it.
    on_host(server, "mkdir", "-p", "/usr/lib/debug")
    on_host(server, "mount", "-t", "tmpfs", "none", "/usr/lib/debug")
    on_host(server, "mkdir", "-p", folder)
    on_host(server, "objcopy", "--only-keep-debug", program, f"{folder}/{build_id[2:]}.debug")
    on_host(server, "strip", program)
    code = code_of(context, record_there(context, there, program))
    assert status_of(code, program) == "complete" and text_of(code)
    assert {"executable", "debug", "sources"} <= list_cached(context)


def test_a_binary_that_was_built_again_is_not_used(
    context: JobContext, there: Target, server: Sshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = build_there(server)
    real = code_files.request_missing

    def rebuild_first(context: JobContext, job: Job) -> None:
        build_there(server, "-g", "-DNEW")
        on_host(server, "cp", "/bin/true", program)
        real(context, job)

    monkeypatch.setattr(code_files, "request_missing", rebuild_first)
    code = code_of(context, record_there(context, there, program))
    assert status_of(code, program) == "rebuilt"
    assert "walk" not in code.symbols.column("name").to_pylist() and "executable" not in list_cached(context)


def test_what_cannot_be_fetched_leaves_the_result_and_a_reason(
    context: JobContext, there: Target, server: Sshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = build_there(server)

    def fail(*arguments: object) -> None:
        raise Unreachable("The host went away.")

    monkeypatch.setattr(TargetFiles, "fetch_objects", fail)
    job = record_there(context, there, program)
    assert status_of(code_of(context, job), program) == "missing"
    assert read_note(context.store.results.path(job.id)) == "Files could not be fetched from there: The host went away."
    assert not is_requested(context.settings.data, job.id)


def test_only_files_that_may_be_source_code_are_fetched(there: Target, server: Sshd, tmp_path: Path) -> None:
    home = server.home
    (home / "a b'; touch gone; '.c").write_text("int a;\n")
    (home / "plain.c").write_text("int b;\n")
    (home / "link.c").symlink_to("/etc/shadow")
    (home / "same.c").symlink_to("plain.c")
    (home / "key.txt").write_text("secret")
    (home / "large.c").write_bytes(b"x" * (MAX_SOURCE_BYTES + 1))
    (home / "folder.c").mkdir()
    os.mkfifo(home / "pipe.c")
    names = sorted(os.listdir(home))
    wanted = [MissingSource(f"{home}/{name}", ("ab" * 20,)) for name in [*names, "none.c"]]
    wanted += [MissingSource("/proc/self/environ", ("ab" * 20,)), MissingSource("relative.c", ("ab" * 20,))]
    with open_transport(there) as transport:
        files = TargetFiles(there, transport, 1 << 30)
        found = {one.wanted.path.rpartition("/")[2]: one.content for one in files.fetch_sources(wanted)}
        expected = dict.fromkeys(("plain.c", "same.c"), b"int b;\n") | {"a b'; touch gone; '.c": b"int a;\n"}
        assert found == expected
        assert sorted(os.listdir(home)) == names
        incoming = BinaryFolder(tmp_path / "incoming")
        incoming.root.mkdir()
        objects = [
            MissingObject(f"{home}/{name}", "cd" * 20, 1.0, True) for name in ("pipe.c", "folder.c", "none", "../../x")
        ]
        files.fetch_objects([*objects, MissingObject("/proc/self/exe", "cd" * 20, 1.0, True)], incoming)
        assert not list(incoming.root.iterdir())
        budget = TargetFiles(there, transport, 3)
        budget.fetch_objects([MissingObject(f"{home}/plain.c", "cd" * 20, 1.0, True)], incoming)
        assert not list(incoming.root.iterdir())
