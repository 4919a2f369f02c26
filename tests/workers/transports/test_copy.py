"""Copying files there and here: the same at every target."""

import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from perfloom.domain.errors import NotFound, PerfloomError, Refused, Unavailable
from perfloom.domain.targets import Target
from perfloom.workers.base.context import StepInterrupted
from perfloom.workers.base.scripts import worker_script
from perfloom.workers.transports import FileCopy, LocalTransport, Transport, open_transport, sftp_copy
from tests.support.parts import own_mounts
from tests.support.sshd import Account, Sshd
from tests.workers.transports.test_run import HOSTILE
from tests.workers.waiting import until

MB = 1 << 20


@pytest.fixture
def away(tmp_path: Path) -> Path:
    """A folder at the target."""
    folder = tmp_path / "away"
    folder.mkdir()
    return folder


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A folder on this machine."""
    folder = tmp_path / "here"
    folder.mkdir()
    return folder


def file(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def test_files_arrive_as_they_were_and_are_ours_alone(there: Transport, here: Path, away: Path) -> None:
    sizes = [0, 1, 255, 4096, 32768, 262143, 262144, 262145, 3 * MB + 17]
    data = {str(size): os.urandom(size) for size in sizes}
    there.put([FileCopy(str(away / name), file(here, name, content)) for name, content in data.items()])
    assert {path.name: path.read_bytes() for path in away.iterdir()} == data
    assert {stat.S_IMODE(path.stat().st_mode) for path in away.iterdir()} == {0o600}
    back = here / "back" / "deeper"
    there.get([FileCopy(str(away / name), back / name, len(content)) for name, content in data.items()])
    assert {path.name: path.read_bytes() for path in back.iterdir()} == data
    there.put([])
    there.get([])


def test_executable_permission_is_copied(there: Transport, here: Path, away: Path) -> None:
    script = file(here, "script", b"#!/bin/sh\necho ran\n")
    script.chmod(0o755)
    old = os.umask(0o177)
    try:
        there.put([FileCopy(str(away / "script"), script)])
    finally:
        os.umask(old)
    assert stat.S_IMODE((away / "script").stat().st_mode) == 0o700
    assert there.run(str(away / "script")).stdout == b"ran\n"


def test_permissions_can_be_given(there: Transport, here: Path, away: Path) -> None:
    there.put([FileCopy(str(away / "one"), file(here, "one", b"content"), 7, 0o640)])
    assert stat.S_IMODE((away / "one").stat().st_mode) == 0o640


def test_a_local_copy_reports_its_progress_and_can_be_interrupted(here: Path, away: Path) -> None:
    one, large = file(here, "one", b"content"), file(here, "large", bytes(3 * MB))
    parts: list[float | None] = []

    def stop_halfway(part: float | None, text: str) -> None:
        parts.append(part)
        if part is not None and part > 0.6:
            raise StepInterrupted

    copies = [FileCopy(str(away / path.name), path, path.stat().st_size) for path in (one, large)]
    with pytest.raises(StepInterrupted):
        LocalTransport().put(copies, stop_halfway)
    assert parts == [pytest.approx(0.5), pytest.approx(0.5 + 1 / 6)]
    assert os.listdir(away) == ["one"]


def test_a_file_that_is_there_is_replaced_in_one_go(there: Transport, here: Path, away: Path) -> None:
    old = file(away, "one", b"old and longer than the new one")
    os.link(old, away / "link")
    there.put([FileCopy(str(old), file(here, "one", b"new"))])
    assert old.read_bytes() == b"new"
    assert (away / "link").read_bytes() == b"old and longer than the new one"
    file(here, "back", b"old")
    there.get([FileCopy(str(old), here / "back")])
    assert (here / "back").read_bytes() == b"new"


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_names_are_names(there: Transport, here: Path, away: Path, tmp_path: Path, text: str) -> None:
    mark = tmp_path / "mark"
    name = text.format(mark="mark").replace("/", "_")
    folder = away / f"in {name}"
    folder.mkdir()
    there.put([FileCopy(str(folder / name), file(here, name, b"content")), FileCopy(str(folder / "2"), here / name)])
    assert sorted(os.listdir(folder)) == sorted([name, "2"]) and (folder / name).read_bytes() == b"content"
    there.get([FileCopy(str(folder / name), here / "back" / name, 7)])
    assert os.listdir(here / "back") == [name] and (here / "back" / name).read_bytes() == b"content"
    with pytest.raises(NotFound):
        there.get([FileCopy(str(folder / f"no {name}"), here / "back" / "2")])
    with pytest.raises(NotFound):
        there.put([FileCopy(str(folder / "no" / name), here / name)])
    assert not mark.exists() and not list(Path.cwd().glob("mark")) and not Path("~/mark").expanduser().exists()


def test_a_long_name_is_no_trouble(there: Transport, here: Path, away: Path) -> None:
    name = "n" * 255
    there.put([FileCopy(str(away / name), file(here, name, b"content"))])
    there.get([FileCopy(str(away / name), here / "back" / name, 7)])
    assert (here / "back" / name).read_bytes() == b"content"


def test_missing_file_is_reported(there: Transport, here: Path, away: Path) -> None:
    one, two = file(here, "one", b"content"), file(away, "two", b"")
    for copy, doing, named in (
        (FileCopy(str(away / "nothing"), here / "a"), there.get, away / "nothing"),
        (FileCopy(str(away / "no" / "folder"), one), there.put, away / "no"),
        (FileCopy(str(away / "a"), here / "nothing"), there.put, here / "nothing"),
        (FileCopy(f"{two}/a", one), there.put, two),
    ):
        with pytest.raises(NotFound, match=r"does not exist") as caught:
            doing([copy])
        assert str(named) in caught.value.message
    assert os.listdir(away) == ["two"] and sorted(os.listdir(here)) == ["one"]


def test_a_folder_is_no_file(there: Transport, here: Path, away: Path) -> None:
    (away / "folder").mkdir()
    with pytest.raises(PerfloomError):
        there.get([FileCopy(str(away / "folder"), here / "a")])
    with pytest.raises(PerfloomError):
        there.put([FileCopy(str(away / "folder"), file(here, "one", b"content"))])
    assert os.listdir(away / "folder") == [] and not (here / "a").exists()


def test_first_failure_ends_copy_without_partial_files(there: Transport, here: Path, away: Path) -> None:
    many = [FileCopy(str(away / str(n)), file(here, str(n), b"x" * n)) for n in range(100)]
    bad = FileCopy(str(away / "no" / "folder"), here / "1")
    with pytest.raises(NotFound):
        there.put([*many[:50], bad, *many[50:]])
    until(lambda: not list(away.glob(".*")), "no half is left")
    assert all(path.read_bytes() == b"x" * int(path.name) for path in away.iterdir())


@pytest.mark.parametrize(("slow", "signals"), [("wc", 1), ("rm", 2)])
def test_terminated_copy_leaves_no_partial_file(tmp_path: Path, away: Path, slow: str, signals: int) -> None:
    begun, programs = tmp_path / "begun", tmp_path / "programs"
    programs.mkdir()
    real = shutil.which(slow)
    for name in {slow, "wc"}:
        lines = ["#!/bin/sh", f": >{begun}.{name}", "sleep 0.5", *([f'exec {real} "$@"'] if name == "rm" else [])]
        file(programs, name, "\n".join(lines).encode()).chmod(0o700)
    variables = f"pl_partial={away}/.a.part; pl_file={away}/a; pl_folder={away}; pl_size=4; pl_mode=600\n"
    script = variables + worker_script("transports/receive_file.sh")
    path = f"{programs}:{os.environ['PATH']}"
    receiver = subprocess.Popen(
        ["/bin/sh", "-c", script], stdin=-1, stderr=-1, start_new_session=True, env={**os.environ, "PATH": path}
    )
    assert receiver.stdin is not None and receiver.stderr is not None
    receiver.stdin.write(b"data")
    receiver.stdin.close()
    receiver.stderr.close()
    for name in ("wc", "rm")[:signals]:
        until(Path(f"{begun}.{name}").exists, f"{name} has started")
        os.killpg(receiver.pid, signal.SIGTERM)
    assert receiver.wait(20) != 0
    assert os.listdir(away) == []


def test_complete_file_is_not_fetched_again(there: Transport, here: Path, away: Path) -> None:
    mine = file(here, "a", b"mine")
    there.get([FileCopy(str(file(away, "a", b"ours")), mine, 4)])
    assert mine.read_bytes() == b"mine"
    there.get([FileCopy(str(away / "a"), mine)])
    assert mine.read_bytes() == b"ours"


@pytest.mark.usefixtures("looks_often")
@pytest.mark.parametrize("target", ["ssh", "ssh-without-sftp"], indirect=True)
def test_a_file_that_was_broken_off_is_gone_on_with(there: Transport, here: Path, away: Path) -> None:
    big = file(away, "big", os.urandom(64 * MB))
    copy = FileCopy(str(big), here / "big", 64 * MB)

    class Broken(Exception):
        pass

    def stop(done: float | None, text: str) -> None:
        if done and done > 0.01:
            raise Broken

    with pytest.raises(Broken):
        there.get([copy], stop)
    (partial,) = here.glob(".big.*.part")
    until(lambda: partial.stat().st_size > 0, "something was fetched")
    # Mark what came the first time, to know it again.
    with partial.open("r+b") as stream:
        stream.write(b"the first time")
    there.get([copy])
    assert (here / "big").read_bytes() == b"the first time" + big.read_bytes()[14:]
    assert os.listdir(here) == ["big"]


def test_a_file_that_has_changed_is_not_mixed_with_what_was_fetched_of_it(
    far: Transport, here: Path, away: Path
) -> None:
    file(here, ".a.5-1000000000.part", b"old")
    there = file(away, "a", b"new!!")
    os.utime(there, (2_000_000_000, 2_000_000_000))
    far.get([FileCopy(str(there), here / "a", 5)])
    assert (here / "a").read_bytes() == b"new!!" and os.listdir(here) == ["a"]


def test_file_with_other_size_is_rejected(far: Transport, here: Path, away: Path) -> None:
    with pytest.raises(Unavailable, match="has changed"):
        far.get([FileCopy(str(file(away, "a", b"12345")), here / "a", 6)])
    assert os.listdir(here) == []


@pytest.mark.usefixtures("looks_often")
def test_progress_is_reported(there: Transport, here: Path, away: Path) -> None:
    said: list[tuple[float | None, str]] = []
    big = file(here, "big", os.urandom(24 * MB))
    there.put([FileCopy(str(away / "big"), big)], lambda part, text: said.append((part, text)))
    there.get([FileCopy(str(away / "big"), here / "back", 24 * MB)], lambda part, text: said.append((part, text)))
    assert said and all("big" in text for _, text in said)
    assert all(part is not None and 0 <= part <= 1 for part, _ in said)


def test_full_disk_at_target_is_distinguished(make_host: Callable[..., Sshd], here: Path) -> None:
    for options in ([], ["Subsystem sftp /bin/false"]):
        host = make_host(small=True, options=options)
        small = host.home / "small"
        with open_transport(host.target()) as there:
            there.put([FileCopy(str(small / "fits"), file(here, "fits", os.urandom(100_000)))])
            with pytest.raises(Unavailable, match="disk is full") as caught:
                there.put([FileCopy(str(small / "big"), file(here, "big", os.urandom(MB)))])
            assert host.host in caught.value.message and str(small) in caught.value.message
            assert there.run(f"ls -A {small}").text == "fits\n"


def test_missing_permission_is_reported(make_host: Callable[..., Sshd], here: Path, away: Path) -> None:
    for options in ([], ["Subsystem sftp /bin/false"]):
        host = make_host(account=Account(), options=options)
        away.chmod(0o755)
        secret = file(away, "secret", b"root's own")
        secret.chmod(0o600)
        with open_transport(host.target()) as there:
            # The directory of the test is private; /etc is not.
            with pytest.raises(Refused, match="may not be read by remote"):
                there.get([FileCopy("/etc/shadow-", here / "a")])
            with pytest.raises(Refused, match=r"may not be written on .* by remote"):
                there.put([FileCopy("/etc/perfloom-test", file(here, "one", b""))])
    assert not Path("/etc/perfloom-test").exists()


INSIDE = """
import sys
from pathlib import Path
from perfloom.domain.errors import PerfloomError
from perfloom.domain.targets import Target
from perfloom.workers.transports import FileCopy, close_all, open_transport
import json
target = Target.from_json(json.loads(sys.argv[1]))
with open_transport(target) as there:
    try:
        there.get([FileCopy(sys.argv[2], Path(sys.argv[3]) / "copy", int(sys.argv[4]))])
    except PerfloomError as error:
        print(type(error).__name__, error.message)
close_all()
"""


def test_full_local_disk_is_reported(target: Target, tmp_path: Path, away: Path) -> None:
    import json

    full = tmp_path / "full"
    full.mkdir()
    big = file(away, "big", os.urandom(MB))
    mount = 'mount -t tmpfs -o size=64k none "$1" && shift && exec "$@"'
    argv = [*own_mounts(), "sh", "-c", mount, "sh", full, sys.executable, "-c", INSIDE]
    argv += [json.dumps(target.to_json()), big, full, str(MB)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Unavailable The disk that holds") and str(full) in done.stdout


def test_many_small_files_cost_few_round_trips(
    far: Transport, here: Path, away: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted, as time says little on a busy machine: how many answers are awaited one after another."""
    count = 256
    copies = [FileCopy(str(away / str(n)), file(here, str(n), b"x" * n)) for n in range(count)]
    at_once: list[int] = []
    running = 0
    real = sftp_copy._put_one

    async def counted(*arguments: object) -> None:
        nonlocal running
        running += 1
        at_once.append(running)
        try:
            await real(*arguments)  # type: ignore[arg-type]
        finally:
            running -= 1

    monkeypatch.setattr(sftp_copy, "_put_one", counted)
    far.put(copies)
    assert max(at_once) == sftp_copy.MAX_FILES
    assert len(os.listdir(away)) == count
