"""What is in the way: each fault is the right kind of error, says which host it is about, and what to do."""

import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from perfloom.domain.errors import InvalidRequest, PerfloomError, Refused, Unreachable
from perfloom.domain.targets import Ssh, Target
from perfloom.workers import transports
from perfloom.workers.transports import FileCopy, connections, open_transport
from tests.support.network_lock import network_change
from tests.support.sshd import Network, Sshd, answering, key, make_key, network, silent
from tests.workers.transports.refusals import failure, works
from tests.workers.waiting import until

BANNER = b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n"


def account(port: int, **changes: object) -> Ssh:
    return replace(Ssh("127.0.0.1", port=port, user="me", agent=False, config=False, connect_timeout_s=5.0), **changes)


def free_port() -> int:
    with silent() as port:
        return port


def test_unknown_host_name(no_home: Path) -> None:
    for name in ("no-such-host.invalid", "a..b", "x" * 300):
        error = failure(account(22, host=name))
        assert type(error) is Unreachable and "cannot be resolved here" in error.message and name[:60] in error.message


def test_a_name_that_is_none(no_home: Path) -> None:
    for name in ("", "a b", "a\nb", "-o ProxyCommand=x\t"):
        assert isinstance(failure(account(22, host=name)), InvalidRequest)
    for jump in ("", "a b", "[::1", "host:port"):
        assert isinstance(failure(account(22, jump=(jump,))), InvalidRequest)


def test_closed_port(no_home: Path) -> None:
    port = free_port()
    error = failure(account(port))
    assert type(error) is Unreachable and "refused the connection" in error.message and str(port) in error.message


@pytest.mark.parametrize("says", [b"", BANNER, BANNER + b"\0\0\4\0"], ids=["before", "behind", "within"])
def test_a_host_that_hangs_before_or_behind_its_banner(no_home: Path, says: bytes) -> None:
    with silent(says) as port:
        started = time.monotonic()
        error = failure(account(port, connect_timeout_s=0.5))
        assert time.monotonic() - started < 15
        assert type(error) is Unreachable and "within 0.5 s" in error.message and f"port {port}" in error.message


@pytest.mark.parametrize("says", [b"", BANNER], ids=["before", "behind"])
def test_a_host_that_hangs_up(no_home: Path, says: bytes) -> None:
    with silent(says, hangs_up=True) as port:
        error = failure(account(port))
        assert type(error) is Unreachable and f"port {port}" in error.message


@pytest.mark.parametrize(
    "says",
    [b"HTTP/1.1 400 Bad Request\r\n\r\n" * 2000, b"SSH-1.5-old\r\n", BANNER + b"\xff" * 4000],
    ids=["http", "old", "noise"],
)
def test_server_without_ssh(no_home: Path, says: bytes) -> None:
    with silent(says) as port:
        error = failure(account(port))
        assert (
            type(error) is Refused
            and "does not follow the SSH protocol" in error.message
            and f"port {port}" in error.message
        )


def test_hostile_server_message_is_sanitized(no_home: Path) -> None:
    def rude(one: object) -> None:
        # A message MSG_DISCONNECT of the server's own words.
        words = b"bye \x1b[31m\n<script>\xff" + b"x" * 2000
        body = b"\x01" + (2).to_bytes(4, "big") + len(words).to_bytes(4, "big") + words + b"\0\0\0\0"
        fill = 8 - (len(body) + 5) % 8 + 4
        one.sendall(BANNER + (len(body) + fill + 1).to_bytes(4, "big") + bytes([fill]) + body + bytes(fill))  # type: ignore[attr-defined]

    with answering(rude) as port:
        message = failure(account(port)).message
        assert message.isprintable() and len(message) < 800


def test_hosts_with_no_cipher_in_common(make_host: Callable[..., Sshd]) -> None:
    host = make_host(options=["Ciphers aes128-cbc"])
    config = Path(host.folder, "own-home", ".ssh")
    config.mkdir(parents=True)
    (config / "config").write_text("Host *\n Ciphers aes256-ctr\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(config.parent))
        # The server hangs up at the same moment, and what it said may be lost with that.
        error = until(lambda: _is(Refused, failure(host.ssh(config=True))), "there is a reason")
    assert "no common encryption" in error.message and f"port {host.port}" in error.message


def _is(kind: type[PerfloomError], error: PerfloomError) -> PerfloomError | None:
    return error if isinstance(error, kind) else None


def test_a_jump_host_that_cannot_be_reached_or_passes_nothing_on(
    far_host: Sshd, make_host: Callable[..., Sshd], no_home: Path
) -> None:
    port = free_port()
    error = failure(far_host.ssh(jump=(f"127.0.0.1:{port}",)))
    assert type(error) is Unreachable and f"port {port}" in error.message and "a jump host of" in error.message
    stubborn = make_host(options=["AllowTcpForwarding no"])
    keys = (stubborn.known, far_host.known)
    error = failure(far_host.ssh(jump=(f"{stubborn.host}:{stubborn.port}",), host_keys=keys))
    assert type(error) is Refused and "does not forward connections" in error.message
    assert str(stubborn.port) in error.message and str(far_host.port) in error.message
    good = make_host()
    error = failure(account(port, jump=(f"{good.host}:{good.port}",), host_keys=(good.known,), key_file=str(key())))
    assert type(error) is Unreachable and "cannot reach" in error.message and f"port {port}" in error.message
    way = (f"{good.host}:{good.port}", f"127.0.0.1:{port}")
    error = failure(far_host.ssh(jump=way, host_keys=(good.known,)))
    assert type(error) is Unreachable and f"port {good.port}" in error.message and f"port {port}" in error.message


def test_a_way_over_several_hosts(far_host: Sshd, make_host: Callable[..., Sshd], no_home: Path) -> None:
    first, second = make_host(), make_host(host_key="host2")
    way = (f"{first.host}:{first.port}", f"ssh://{second.user}@{second.host}:{second.port}")
    assert works(far_host.ssh(jump=way, host_keys=(first.known, second.known, far_host.known)))


def test_a_wrong_key_or_user_is_refused_and_named(far_host: Sshd, tmp_path: Path, no_home: Path) -> None:
    for error in (
        failure(far_host.ssh(key_file=str(make_key(tmp_path / "other")))),
        failure(far_host.ssh(user="nobody-of-this-name")),
        failure(far_host.ssh(user="nobody-$(id)")),
    ):
        assert (
            type(error) is Refused and "authorized_keys" in error.message and f"port {far_host.port}" in error.message
        )
    assert "nobody-$(id)" in error.message
    missing = failure(far_host.ssh(key_file=str(tmp_path / "none")))
    assert type(missing) is Refused and str(tmp_path / "none") in missing.message and "No such file" in missing.message
    (tmp_path / "text").write_text("not a key")
    no_key = failure(far_host.ssh(key_file=str(tmp_path / "text")))
    assert type(no_key) is Refused and "cannot be used" in no_key.message
    none = failure(far_host.ssh(key_file=""))
    assert type(none) is Refused and "no key" in none.message


@pytest.mark.usefixtures("looks_often")
def test_a_server_that_ends_in_the_middle_is_reported_and_reached_again(
    make_host: Callable[..., Sshd], tmp_path: Path
) -> None:
    host = make_host()
    with open_transport(host.target()) as there:
        seen = tmp_path / "seen"

        def hang_up(part: float | None, text: str) -> None:
            if not text.endswith(" 0\u00a0B so far"):
                host.hang_up()

        big = tmp_path / "big"
        big.write_bytes(os.urandom(1 << 20) * 64)
        with pytest.raises(Unreachable, match="was lost while files were copied"):
            there.put([FileCopy(str(host.home / "big"), big)], hang_up)
        assert not (host.home / "big").exists()
        with pytest.raises(Unreachable, match="was lost while files were fetched"):
            there.get([FileCopy(str(big), tmp_path / "back")], hang_up)
        assert there.run(f"echo again >{seen}; echo $PPID").status == 0
        # A script is never sent twice: it may have begun.
        count = tmp_path / "count"
        with pytest.raises(Unreachable, match="was lost while a script ran"):
            there.run(f"echo once >>{count}; kill -9 $PPID; sleep 5")
        assert count.read_text() == "once\n"
        # A connection that was lost while idle is replaced.
        host.hang_up()
        assert there.run("echo well").text == "well\n"


@pytest.fixture(scope="module")
def net() -> object:
    with network() as made:
        yield made
    transports.close_all()


@pytest.mark.slow
def test_the_far_host_is_reached_through_the_jump_host_alone(net: Network, no_home: Path) -> None:
    assert works(net.ssh()).split()[2] == net.far.host
    error = failure(net.far.ssh(connect_timeout_s=1.0))
    assert isinstance(error, PerfloomError)


@pytest.mark.usefixtures("looks_often")
@pytest.mark.slow
def test_a_network_that_is_cut_is_noticed_and_mended(
    net: Network, no_home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert connections.KEEPALIVE_S * (connections.KEEPALIVE_COUNT + 1) <= 30
    monkeypatch.setattr(connections, "KEEPALIVE_S", 0.3)
    source = tmp_path / "source"
    source.write_bytes(os.urandom(1 << 20) * 96)
    copy = FileCopy(str(source), tmp_path / "copy", source.stat().st_size)
    with open_transport(Target("far", ssh=net.ssh(connect_timeout_s=2.0))) as there:
        assert there.run("echo here").text == "here\n"
        with net.cut():
            started = time.monotonic()
            with pytest.raises(Unreachable):
                there.run("echo here", timeout_s=60)
            assert time.monotonic() - started < 30
            with pytest.raises(Unreachable):
                there.run("echo here", timeout_s=60)
        # Where it was away for long, the kernel needs a moment to ask for the way again.
        until(lambda: _reached(there), "the network is there again")
        assert there.run("echo again").text == "again\n"

        def cut(part: float | None, text: str) -> None:
            if part:
                net.down()

        # The lock is taken before the copy: the file could arrive whole while the callback waits for it.
        with network_change():
            try:
                with pytest.raises(Unreachable, match="was lost while files were fetched"):
                    there.get([copy], cut)
            finally:
                net.up()
        (partial,) = tmp_path.glob(".copy.*.part")
        had = partial.stat().st_size
        assert 0 < had < source.stat().st_size
        until(lambda: _reached(there), "the network is there again")
        there.get([copy])
        assert copy.local.stat().st_size == source.stat().st_size and not partial.exists()
    transports.close_all()


def _reached(there: transports.Transport) -> bool:
    try:
        return there.run("true").status == 0
    except Unreachable:
        return False
