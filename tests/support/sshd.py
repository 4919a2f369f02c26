"""Real SSH servers for tests, and what can go wrong on the way to them.

    with sshd() as far:                       # on a free port of this machine, for the user who runs the tests
        Target("far", ssh=far.ssh())          # what logs in there: its key, its host key, nothing of ~/.ssh

    sshd(environment={"PATH": …})             # the environment of whatever is run there
    sshd(account=Account(password=True))      # another user, who exists for that server alone (root only)
    sshd(small=True)                          # `home`/small is on a disk that is full soon (root only)

    with network() as net:                    # a jump host, and a host behind it that only it can reach (root only)
        net.jump, net.far, net.ssh()
        with net.cut(): …                     # packets are dropped without a word

    with silent(b"") as port: …               # somebody who accepts connections and then says this and no more

Everything ends with the block, and when the test process dies, however that happens: the servers are tied to it by the
kernel, networks and accounts live in namespaces of the servers alone, and nothing is written outside a folder in /tmp.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from perfloom.domain.targets import Ssh, Target
from perfloom.workers.base import processes
from tests.support.network_lock import network_change
from tests.support.parts import missing, require

WORD = "correct horse"
"""The password of an Account that has one."""
WORD_HASH = "$6$perfloom$EPL6KRznnOMJaK8e82lzdsy4oHtcCi5KszVNXTUSoserRWT38tOB4uoMskQ78PTraBYwtfxuzzBb8jlRCrAij/"
UP_S = 20.0
TIED = ["setpriv", "--pdeathsig", "KILL", "--"]


@dataclass(frozen=True)
class Account:
    """A user who exists for one server alone. password: whether WORD lets them in. login_shell: theirs."""

    name: str = "remote"
    password: bool = False
    login_shell: str = "/bin/bash"
    uid: int = 64123


@dataclass(frozen=True)
class Sshd:
    """A running server. home: $HOME of commands there. key: a private key that lets `user` in."""

    host: str
    port: int
    user: str
    folder: Path
    home: Path
    key: Path
    host_key: str
    process: subprocess.Popen[bytes] = field(repr=False)

    @property
    def known(self) -> str:
        """Its line for a known_hosts file."""
        name = self.host if self.port == 22 else f"[{self.host}]:{self.port}"
        return f"{name} {self.host_key}"

    def ssh(self, **changes: Any) -> Ssh:
        """The parameters that log in here, independent of ~/.ssh."""
        return replace(
            Ssh(
                self.host,
                user=self.user,
                port=self.port,
                key_file=str(self.key),
                agent=False,
                config=False,
                host_keys=(self.known,),
            ),
            **changes,
        )

    def target(self, name: str = "far", **changes: Any) -> Target:
        """This host as a target."""
        return replace(Target(name, ssh=self.ssh(), directory=str(self.home / "jobs")), **changes)

    def log(self) -> str:
        """What the server said."""
        return (self.folder / "log").read_text(errors="replace")

    def hang_up(self) -> None:
        """End all connections; the server itself continues."""
        processes.send_all(processes.descendants(self.process.pid), signal.SIGKILL)


@functools.cache
def _keys() -> Path:
    """A directory with the keys of this test run: `client`, `host`, `host2`, each ed25519, and `host-ecdsa`."""
    folder = Path(tempfile.mkdtemp(prefix="pl-keys-", dir="/tmp"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for name in ("client", "host", "host2"):
        make_key(folder / name)
    make_key(folder / "host-ecdsa", kind="ecdsa")
    return folder


def key(name: str = "client") -> Path:
    """A private key of this test run; its public half is next to it (.pub)."""
    require("sshd")
    return _keys() / name


def make_key(path: Path, passphrase: str = "", kind: str = "ed25519") -> Path:
    """Create a key pair. A passphrase is stretched as little as possible, because it takes up to a second."""
    argv = ["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-a", "1", "-C", "test", "-f", path]
    subprocess.run(argv, check=True, stdin=subprocess.DEVNULL, capture_output=True)
    return path


def public(path: Path) -> str:
    """The public half of a key, without its comment."""
    return " ".join(Path(f"{path}.pub").read_text().split()[:2])


@contextlib.contextmanager
def sshd(
    *,
    environment: Mapping[str, str] | None = None,
    account: Account | None = None,
    host_key: str = "host",
    options: Sequence[str] = (),
    space: Space | None = None,
    small: bool = False,
    authorized: Sequence[Path] | None = None,
    port: int | None = None,
) -> Iterator[Sshd]:
    """A server for the time of the block.

    environment: of commands there, in addition to HOME. options: more lines of sshd_config; the first one of a name
    counts. authorized: accepted keys, `key()` by default. port: a free one by default.
    """
    program = str(require("sshd"))
    if (account is not None or small) and os.geteuid() != 0:
        missing("permission to make an account or a small disk", "run the tests as root")
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="pl-sshd-", dir="/tmp"))
    folder.chmod(0o755)
    try:
        home = folder / "home"
        home.mkdir(mode=0o700)
        if account is not None:
            os.chown(home, account.uid, account.uid)
        user = account.name if account else pwd.getpwuid(os.geteuid()).pw_name
        let_in = [key()] if authorized is None else authorized
        (folder / "authorized").write_text("".join(f"{public(one)}\n" for one in let_in))
        shutil.copy(key(host_key), folder / "hostkey")
        host = space.address if space else "127.0.0.1"
        for attempt in range(5):
            chosen = port or _free_port(space)
            _write_config(folder, host, chosen, {"HOME": str(home), **(environment or {})}, account, options)
            argv = [*TIED, *(space.prefix if space else []), *_with_mounts(folder, account, small)]
            argv += [program, "-D", "-f", str(folder / "config"), "-E", str(folder / "log")]
            process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
            server = Sshd(host, chosen, user, folder, home, key(), public(key(host_key)), process)
            if _up(server):
                break
            said = _ended(process) + server.log()
            if "already in use" not in said or attempt == 4:
                raise RuntimeError(f"sshd does not start: {said[-2000:]}")
        try:
            yield server
        finally:
            server.hang_up()
            _ended(process)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _write_config(
    folder: Path, host: str, port: int, environment: Mapping[str, str], account: Account | None, options: Sequence[str]
) -> None:
    pairs = " ".join(
        '"' + f"{name}={value}".replace("\\", "\\\\").replace('"', '\\"') + '"' for name, value in environment.items()
    )
    lines = [
        *options,
        f"Port {port}",
        f"ListenAddress {host}",
        f"HostKey {folder}/hostkey",
        f"PidFile {folder}/pid",
        f"AuthorizedKeysFile {folder}/authorized",
        "UsePAM no",
        "StrictModes no",
        "PermitRootLogin yes",
        f"PasswordAuthentication {'yes' if account and account.password else 'no'}",
        "KbdInteractiveAuthentication no",
        "PrintLastLog no",
        "PrintMotd no",
        "MaxStartups 200",
        "LogLevel VERBOSE",
        f"SetEnv {pairs}",
    ]
    if not any(line.startswith("Subsystem sftp ") for line in options):
        lines.append("Subsystem sftp internal-sftp")
    # Since 9.8, sshd blocks an address after failed logins.
    if _knows("PerSourcePenalties no"):
        lines.append("PerSourcePenalties no")
    (folder / "config").write_text("".join(f"{line}\n" for line in lines))


@functools.cache
def _knows(line: str) -> bool:
    """Whether sshd supports such a line in sshd_config."""
    argv = [str(require("sshd")), "-t", "-f", "/dev/null", "-h", key("host"), "-o", line]
    return subprocess.run(argv, capture_output=True).returncode == 0


def _with_mounts(folder: Path, account: Account | None, small: bool) -> list[str]:
    """The prefix of the command that starts sshd so that only it sees an account in /etc/passwd and /etc/shadow, and a
    small disk in the home directory."""
    mounts = []
    if account is not None:
        one = f"{account.name}:x:{account.uid}:{account.uid}::{folder}/home:{account.login_shell}\n"
        secret = f"{account.name}:{WORD_HASH if account.password else '*'}:20000:0:99999:7:::\n"
        (folder / "passwd").write_text(Path("/etc/passwd").read_text() + one)
        (folder / "shadow").write_text(Path("/etc/shadow").read_text() + secret)
        (folder / "shadow").chmod(0o600)
        mounts += [f'mount --bind "$0/{name}" /etc/{name}' for name in ("passwd", "shadow")]
    if small:
        (folder / "home" / "small").mkdir(mode=0o777)
        mounts.append('mount -t tmpfs -o size=256k none "$0/home/small"')
    if not mounts:
        return []
    script = " && ".join([*mounts, 'exec "$@"'])
    return ["unshare", "--mount", "--propagation", "private", "--", "sh", "-c", script, str(folder)]


def _free_port(space: Space | None) -> int:
    if space is not None:
        return 22
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _up(server: Sshd) -> bool:
    """Wait until it listens; False if it ended."""
    end = time.monotonic() + UP_S
    while server.process.poll() is None:
        if "Server listening on" in (server.log() if (server.folder / "log").exists() else ""):
            return True
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return False


def _ended(process: subprocess.Popen[bytes]) -> str:
    """End a process; returns its output."""
    process.kill()
    said = process.communicate()[1]
    return (said or b"").decode(errors="replace")


@dataclass
class Space:
    """A separate network namespace, which ends with the process that holds it."""

    holder: subprocess.Popen[bytes]
    address: str

    @property
    def prefix(self) -> list[str]:
        """The prefix of a command that runs in it."""
        return ["nsenter", f"--net=/proc/{self.holder.pid}/ns/net", "--"]

    def ip(self, *words: str) -> None:
        """Call ip(8) in it."""
        subprocess.run([*self.prefix, "ip", *words], check=True, capture_output=True)


@dataclass(frozen=True)
class Network:
    """A jump host, and a host that only it can reach."""

    jump: Sshd
    far: Sshd
    jump_space: Space
    far_space: Space

    def ssh(self, **changes: Any) -> Ssh:
        """The parameters that log in to the remote host, through the jump host."""
        way = f"{self.jump.user}@{self.jump.host}:{self.jump.port}"
        return self.far.ssh(jump=(way,), host_keys=(self.jump.known, self.far.known), **changes)

    def down(self) -> None:
        """Drop every packet between here and the jump host from now on. Call it in a `network_change`."""
        self.jump_space.ip("link", "set", "outer", "down")

    def up(self) -> None:
        """Let packets through again. Call it in a `network_change`."""
        self.jump_space.ip("link", "set", "outer", "up")

    @contextlib.contextmanager
    def cut(self) -> Iterator[None]:
        """Packets are dropped for the time of the block."""
        with network_change():
            self.down()
        try:
            yield
        finally:
            with network_change():
                self.up()


@contextlib.contextmanager
def network(environment: Mapping[str, str] | None = None) -> Iterator[Network]:
    """A network for the time of the block. environment: of commands on the remote host."""
    require("ip")
    if os.geteuid() != 0:
        missing("permission to make a network", "run the tests as root")
    with contextlib.ExitStack() as stack:
        here, there = _free_pair()
        jump = stack.enter_context(_space(there))
        far = stack.enter_context(_space("10.99.0.2"))
        name = f"pl{secrets.token_hex(5)}"
        # Removed before the namespace at its other end, which would remove it at any time.
        stack.callback(_remove_link, name)
        with network_change():
            _ip("link", "add", name, "type", "veth", "peer", "name", "outer", "netns", str(jump.holder.pid))
            _ip("addr", "add", f"{here}/30", "dev", name)
            _ip("link", "set", name, "up")
            jump.ip("addr", "add", f"{there}/30", "dev", "outer")
            jump.ip("link", "set", "outer", "up")
        jump.ip("link", "add", "inner", "type", "veth", "peer", "name", "outer", "netns", str(far.holder.pid))
        jump.ip("addr", "add", "10.99.0.1/30", "dev", "inner")
        jump.ip("link", "set", "inner", "up")
        far.ip("addr", "add", "10.99.0.2/30", "dev", "outer")
        far.ip("link", "set", "outer", "up")
        before = stack.enter_context(sshd(space=jump))
        behind = stack.enter_context(sshd(space=far, host_key="host2", environment=environment))
        yield Network(before, behind, jump, far)


@contextlib.contextmanager
def _space(address: str) -> Iterator[Space]:
    argv = [*TIED, "unshare", "--net", "--", "sh", "-c", "echo; exec sleep 100000"]
    holder = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert holder.stdout is not None
    try:
        if holder.stdout.readline() != b"\n":
            missing("permission to make a network", f"run the tests as root, not in a container ({_ended(holder)})")
        space = Space(holder, address)
        space.ip("link", "set", "lo", "up")
        yield space
    finally:
        holder.kill()
        holder.communicate()


def _remove_link(name: str) -> None:
    with network_change():
        subprocess.run(["ip", "link", "del", name], capture_output=True)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


def _free_pair() -> tuple[str, str]:
    """Two unused addresses in a network of four."""
    while True:
        number = secrets.randbelow(1 << 20)
        base = (100 << 24) + (64 << 16) + number * 4
        here, there = (".".join(str(base + n >> shift & 255) for shift in (24, 16, 8, 0)) for n in (1, 2))
        taken = subprocess.run(["ip", "-o", "addr"], check=True, capture_output=True, text=True).stdout
        if f" {here}/" not in taken and f" {there}/" not in taken:
            return here, there


@contextlib.contextmanager
def silent(says: bytes = b"", *, hangs_up: bool = False) -> Iterator[int]:
    """A port of 127.0.0.1 that accepts connections, sends this text, and then nothing more, or hangs up."""

    def answer(one: socket.socket) -> None:
        with contextlib.suppress(OSError):
            one.sendall(says)

    with answering(answer, hangs_up=hangs_up) as port:
        yield port


@contextlib.contextmanager
def answering(answer: Callable[[socket.socket], None], *, hangs_up: bool = False) -> Iterator[int]:
    """A port of 127.0.0.1 that passes each connection to `answer`."""
    held: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    one = listening.accept()[0]
                    answer(one)
                    if hangs_up:
                        one.close()
                    else:
                        held.append(one)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield int(listening.getsockname()[1])
        finally:
            # Closing alone does not wake a thread that waits in accept().
            with contextlib.suppress(OSError):
                listening.shutdown(socket.SHUT_RDWR)
            thread.join(5)
            for one in held:
                one.close()
