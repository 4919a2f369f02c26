"""Running scripts: the same at every target."""

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from perfloom.domain.errors import Refused, Unavailable, Unreachable
from perfloom.domain.targets import Target
from perfloom.recording.quoting import quote
from perfloom.workers import transports
from perfloom.workers.transports import FileCopy, ScriptResult, Transport, connections, open_transport
from tests.support.parts import require
from tests.support.sshd import Account, Sshd, sshd
from tests.workers.waiting import has_ended, until

HOSTILE = [
    "$(touch {mark})",
    "`touch {mark}`",
    "; touch {mark} #",
    "'; touch {mark}; '",
    '"; touch {mark}; "',
    "\n touch {mark}\n",
    "| touch {mark}",
    "a\\'b\"c !! !$ %1 ~root *",
    "ünïcödé 漢字 \u202e\x7f\x1b[31m",
    "-rf --help",
    "\udcff\udc80 not UTF-8",
]


def test_output_errors_and_exit_status_come_back(there: Transport) -> None:
    assert there.run("echo out; echo err >&2; exit 3") == ScriptResult(3, b"out\n", b"err\n")
    assert there.run("true") == ScriptResult(0, b"", b"")
    assert there.run("printf 'no line break'; printf '\\0\\377' >&2") == ScriptResult(0, b"no line break", b"\0\xff")


def test_a_signal_is_no_exit_status(there: Transport) -> None:
    assert there.run("echo before; kill -9 $$").status is None


def test_script_reads_input_to_its_end(there: Transport) -> None:
    assert (
        there.run('read first; echo "<$first>"; cat', input=b"one\ntwo\0\xff\nthree").stdout
        == b"<one>\ntwo\0\xff\nthree"
    )
    assert there.run("cat").stdout == b""
    assert there.run("exec head -c 1", input=b"x" * 3_000_000).stdout == b"x"
    assert there.run("exit 4", input=b"nobody reads this" * 100_000).status == 4
    data = bytes(range(256)) * 20_000
    assert there.run("cat", input=data).stdout == data


def test_a_script_may_be_of_any_length(there: Transport) -> None:
    script = ": " + "x" * 1_000_000 + '\nread word\necho "$word"; exit 7\n\n\n'
    assert there.run(script, input=b"the input") == ScriptResult(7, b"the input\n", b"")


def test_a_script_that_is_none_is_no_success(there: Transport) -> None:
    assert there.run("if then fi").status not in (0, None)
    assert there.run("no-such-command-at-all").status == 127
    with pytest.raises(Unavailable, match="zero byte"):
        there.run("echo a\0b")


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_texts_are_texts(there: Transport, tmp_path: Path, text: str) -> None:
    mark = tmp_path / "mark"
    text = text.format(mark=mark)
    raw = os.fsencode(text)
    assert there.run(f"printf %s {quote(text)}; cat", input=raw).stdout == raw + raw
    assert not mark.exists()


def test_script_runs_in_home_without_settings(there: Transport, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERFLOOM_TOKEN", "tell-nobody-this-token")
    done = there.run("env; set; pwd; ps -o args= -p $$,$PPID 2>/dev/null")
    assert b"tell-nobody" not in done.stdout and b"PERFLOOM" not in done.stdout
    assert there.run('test -d "$HOME" && test "$(pwd)" != / || test "$HOME" = /').status == 0


def test_script_is_private(there: Transport) -> None:
    """It may hold values of variables; command lines are seen by all users of a machine."""
    done = there.run("word=hush; tr '\\0' ' ' </proc/$$/cmdline; env; sh -c 'env; set'")
    assert done.status == 0
    assert "hush" not in done.text


@pytest.mark.slow
def test_a_script_that_takes_too_long_is_ended_with_all_that_it_started(there: Transport, tmp_path: Path) -> None:
    note = tmp_path / "pids"
    script = f"sleep 300 & echo $! >>{note}; trap '' TERM; (trap '' TERM; sleep 300) & echo $! >>{note}; echo $$ >>{note}; wait"
    with pytest.raises(Unreachable, match=r"did not end within 1\.5 s"):
        there.run(script, timeout_s=1.5)
    pids = [int(word) for word in note.read_text().split()]
    assert len(pids) == 3
    until(lambda: all(map(has_ended, pids)), "they were ended")


def test_a_script_that_prints_without_end_is_ended(there: Transport, tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="printed more than 100000 bytes"):
        there.run(f"echo $$ >{tmp_path}/pid; exec yes", limit_bytes=100_000)
    until(lambda: has_ended(int((tmp_path / "pid").read_text())), "it was ended")
    assert len(there.run("head -c 100000 /dev/zero", limit_bytes=100_000).stdout) == 100_000


def test_background_process_of_script_continues(there: Transport) -> None:
    started = time.monotonic()
    left = there.run("sleep 60 & echo $!; echo started").text.split()
    assert left[1] == "started" and time.monotonic() - started < 30
    assert not has_ended(int(left[0]))
    os.kill(int(left[0]), 9)
    other = there.run("setsid sleep 60 </dev/null >/dev/null 2>&1 & echo $!").text
    until(lambda: not has_ended(int(other)), "it runs")
    os.kill(int(other), 9)


@pytest.mark.usefixtures("looks_often")
def test_waiting_can_be_interrupted(there: Transport, tmp_path: Path) -> None:
    """As the time limit of a task does it: an exception in the thread that waits."""

    class Enough(Exception):
        pass

    copies = [FileCopy(str(tmp_path / "there"), tmp_path / "big")]
    (tmp_path / "big").write_bytes(os.urandom(1 << 20) * 64)

    def stop(done: float | None, text: str) -> None:
        raise Enough

    with pytest.raises(Enough):
        there.put(copies, stop)
    assert not (tmp_path / "there").exists()
    until(lambda: [path.name for path in tmp_path.iterdir()] == ["big"], "nothing is left")


def test_a_transport_may_be_closed_twice(target: Target) -> None:
    with open_transport(target) as there:
        assert there.title
        there.close()
    there.close()


def test_threads_share_a_connection(far_host: Sshd) -> None:
    """More than sshd's ten sessions wait for each other."""

    def work(number: int) -> str:
        with open_transport(far_host.target()) as there:
            return there.run(f"echo {number}; sleep 0.1; echo $SSH_CONNECTION").text

    with ThreadPoolExecutor(24) as threads:
        found = list(threads.map(work, range(24)))
    assert [int(text.split()[0]) for text in found] == list(range(24))
    assert len({text.split()[2] for text in found}) == 1


def test_a_host_that_allows_one_session_is_used_in_turns(make_host: Callable[..., Sshd], tmp_path: Path) -> None:
    host = make_host(options=["MaxSessions 1"])
    (tmp_path / "file").write_bytes(b"content")

    def work(number: int) -> tuple[str, str]:
        with open_transport(host.target()) as there:
            said = there.run(f"sleep 0.1; echo {number}").text
            there.put([FileCopy(str(host.home / str(number)), tmp_path / "file")])
            return said, there.run(f"cat {host.home}/{number}").text

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(work, range(4))) == [(f"{number}\n", "content") for number in range(4)]


def test_idle_connection_is_closed(make_host: Callable[..., Sshd], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "IDLE_S", 0.05)
    host = make_host()
    with open_transport(host.target()) as there:
        first = there.run("echo $SSH_CONNECTION").text
        until(lambda: "Connection closed by" in host.log() or "Disconnected from" in host.log(), "it was closed")
        assert there.run("echo $SSH_CONNECTION").text not in ("", first)


def test_forked_child_opens_its_own_connection(far_host: Sshd, tmp_path: Path) -> None:
    with open_transport(far_host.target()) as there:
        mine = there.run("echo $SSH_CONNECTION").text
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                (tmp_path / "child").write_text(there.run("echo $SSH_CONNECTION").text)
                transports.close_all()
                status = 0
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert (tmp_path / "child").read_text() not in ("", mine)
        assert there.run("echo $SSH_CONNECTION").text == mine


# Login shells. The command that sshd is given means the same to all of them, and what they print by themselves is dropped.


def noisy(home: Path) -> None:
    """Start-up files that print."""
    for name in (".bashrc", ".cshrc", ".tcshrc", ".profile", ".zshenv"):
        (home / name).write_text(
            'echo "Welcome! Quota: 93 %"\necho trouble | cat >/dev/stderr\nprintf "no end of line"\n'
        )
    fish = home / ".config" / "fish"
    fish.mkdir(parents=True)
    (fish / "config.fish").write_text('echo "Welcome!"\nprintf "no end of line"\n')
    for path in (home, *home.rglob("*")):
        os.chown(path, 64123, 64123)


@pytest.mark.parametrize("shell", ["bash", "dash", "tcsh", "fish", "busybox"])
def test_every_login_shell_works(shell: str) -> None:
    program = str(require(shell)) if shell != "bash" else "/bin/bash"
    with sshd(account=Account(login_shell=program)) as far:
        if shell == "busybox":
            # A login shell has one word.
            wrapper = far.folder / "ash"
            wrapper.write_text(f'#!/bin/sh\nexec {program} sh "$@"\n')
            wrapper.chmod(0o755)
            passwd = far.folder / "passwd"
            passwd.write_text(passwd.read_text().replace(f":{program}\n", f":{wrapper}\n"))
        noisy(far.home)
        with open_transport(far.target()) as there:
            script = "printf '%s' 'a b' \"$0\"; cat; echo e >&2; exit 5"
            assert there.run(script, input=b"in\n!!") == ScriptResult(5, b"a bperfloomin\n!!", b"e\n")


def refusal(far: Sshd, **options: float) -> Exception:
    with open_transport(far.target()) as there:
        with pytest.raises((Refused, Unreachable)) as caught:
            there.run("echo hello", **options)  # type: ignore[arg-type]
    return caught.value


def test_account_without_commands_is_reported() -> None:
    with sshd(account=Account(login_shell="/usr/sbin/nologin")) as far:
        error = refusal(far)
    assert isinstance(error, Refused)
    assert "cannot run commands" in error.message and "not available" in error.message and far.host in error.message


def test_restricted_key_is_reported(make_host: Callable[..., Sshd]) -> None:
    error = refusal(make_host(options=["ForceCommand echo 'Only backups, please.'"]))
    assert isinstance(error, Refused) and "Only backups, please." in error.message


def test_blocking_startup_files_are_reported(make_host: Callable[..., Sshd]) -> None:
    error = refusal(make_host(options=["ForceCommand sleep 60"]), timeout_s=1.0)
    assert isinstance(error, Unreachable) and "did not start" in error.message
