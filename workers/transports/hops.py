"""The jump hosts of a target, and the settings of ~/.ssh/config for each. Opens no connection."""

import getpass
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import asyncssh

from perfloom.domain.errors import InvalidRequest, Refused
from perfloom.domain.targets import Ssh

DEFAULT_PORT = 22
MAX_HOPS = 8
"""With more hosts, ProxyJump is circular."""
DEFAULT_KEYS = ("id_ed25519_sk", "id_ecdsa_sk", "id_ed25519", "id_ecdsa", "id_rsa")
SYSTEM_CONFIG = Path("/etc/ssh/ssh_config")
SYSTEM_KNOWN_HOSTS = ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")


@dataclass(frozen=True)
class Hop:
    """One jump host, or the target. name: as the user wrote it. key_files: private keys, in the order in which they are
    tried. certificates: files with certificates for them. identities_only: whether other keys of the agent are not
    tried. agent: the agent's socket, empty for none. known_hosts: files. alias: the name under which its key is known
    (HostKeyAlias). config: files in which asyncssh looks up other settings. algorithms: whether those set
    HostKeyAlgorithms. proxy_command: argv of ProxyCommand, if set."""

    name: str
    host: str
    port: int
    user: str
    key_files: tuple[str, ...]
    certificates: tuple[str, ...]
    identities_only: bool
    agent: str
    known_hosts: tuple[str, ...]
    alias: str
    timeout_s: float
    config: tuple[str, ...]
    algorithms: bool
    proxy_command: tuple[str, ...]

    @property
    def login(self) -> str:
        """user@host, with a port other than 22."""
        return f"{self.user}@{self.title}"

    @property
    def title(self) -> str:
        """The host's name for users."""
        where = self.name if self.port == DEFAULT_PORT else f"{self.name}, port {self.port}"
        return where if self.name.lower() == self.host.lower() else f"{where} ({self.host})"

    @property
    def known_hosts_name(self) -> str:
        """Its name in a known_hosts file."""
        name = (self.alias or self.host).lower()
        return name if self.port == DEFAULT_PORT or self.alias else f"[{name}]:{self.port}"


def resolve_hops(ssh: Ssh) -> tuple[Hop, ...]:
    """The jump hosts of a target, and last the target. Reads configuration files, and runs commands of `Match exec`.

    Raises InvalidRequest or Refused.
    """
    host_spec = _HostSpec(ssh.host, ssh.user, ssh.port)
    return _resolve(ssh, host_spec, ssh.jump or None, own=True, depth=1)


@dataclass(frozen=True)
class _HostSpec:
    """A host as written in a target or a configuration file."""

    host: str
    user: str = ""
    port: int | None = None


def _resolve(ssh: Ssh, host_spec: _HostSpec, jump: Sequence[str] | None, *, own: bool, depth: int) -> tuple[Hop, ...]:
    """own: whether it is the target itself, for which the target's key file is tried first."""
    if depth > MAX_HOPS:
        raise Refused(
            f"The path to {ssh.host} has more than {MAX_HOPS} jump hosts. Check whether ProxyJump in ~/.ssh/config "
            "has a cycle."
        )
    hop, proxy_jump = _look_up(ssh, host_spec, own)
    if jump is None:
        jump = proxy_jump
    else:
        hop = replace(hop, proxy_command=())
    if not jump:
        return (hop,)
    *before, last = jump
    # As ssh does: the last of several jump hosts is reached through the others; a single one as its own entry says.
    return (*_resolve(ssh, parse_jump(last), before or None, own=False, depth=depth + 1), hop)


def parse_jump(text: str) -> _HostSpec:
    """`[user@]host[:port]`, also as an ssh:// URL and with an IPv6 address in brackets. Raises InvalidRequest."""
    rest = text.strip().removeprefix("ssh://").rstrip("/")
    user, _, host = rest.rpartition("@")
    match = re.fullmatch(r"\[([^\[\]]+)\](?::([0-9]{1,5}))?|([^:]+)(?::([0-9]{1,5}))?|([0-9A-Fa-f:]+)", host)
    if not match:
        raise InvalidRequest(f"{text[:80]!r} is not a valid jump host. Write [user@]host[:port].", "jump")
    port = match[2] or match[4]
    return _HostSpec(match[1] or match[3] or match[5], user, int(port) if port else None)


def _look_up(ssh: Ssh, host_spec: _HostSpec, own: bool) -> tuple[Hop, tuple[str, ...]]:
    """A host with its settings, and its own jump hosts."""
    if not host_spec.host or any(ord(c) <= 32 or ord(c) == 127 for c in host_spec.host + host_spec.user):
        raise InvalidRequest(
            f"{host_spec.host[:80]!r} is not a valid host name, or its user is not a valid user name.", "host"
        )
    files = _config_files() if ssh.config else ()
    options = _options(files, host_spec)
    config = cast(Any, options).config
    home = Path("~/.ssh").expanduser()
    names = [str(name) for name in config.get("IdentityFile", ())]
    usual = names or [str(home / name) for name in DEFAULT_KEYS if (home / name).is_file()]
    mine = [ssh.key_file] if ssh.key_file else []
    # Jump hosts often accept the target's key too, but their own keys are tried first.
    keys = (mine or usual) if own else [*usual, *mine]
    timeout = config.get("ConnectTimeout") if ssh.connect_timeout_s == Ssh("").connect_timeout_s else None
    jump = str(config.get("ProxyJump") or "")
    known = tuple(str(name) for name in config.get("UserKnownHostsFile", ()))
    system = tuple(str(name) for name in config.get("GlobalKnownHostsFile", SYSTEM_KNOWN_HOSTS))
    hop = Hop(
        name=host_spec.host,
        host=options.host,
        port=options.port,
        user=options.username,
        key_files=tuple(os.path.expanduser(name) for name in keys),
        certificates=tuple(name for name in _certificates(config) if os.access(name, os.R_OK)),
        identities_only=bool((own and mine) or config.get("IdentitiesOnly")),
        agent=_agent(config.get("IdentityAgent")) if ssh.agent else "",
        known_hosts=(*(known or (str(home / "known_hosts"), str(home / "known_hosts2"))), *system),
        alias=str(config.get("HostKeyAlias") or ""),
        timeout_s=float(timeout or ssh.connect_timeout_s),
        config=tuple(map(str, files)),
        algorithms=config.get("HostKeyAlgorithms") is not None,
        proxy_command=tuple(options.proxy_command or ()),
    )
    hop = replace(hop, known_hosts=tuple(_expand(name, hop) for name in hop.known_hosts))
    return hop, tuple(part for part in jump.split(",") if part.strip())


def _options(files: Sequence[Path], host_spec: _HostSpec) -> asyncssh.SSHClientConnectionOptions:
    """The settings for a host in the configuration files, parsed by asyncssh."""
    more: dict[str, Any] = {"username": host_spec.user} if host_spec.user else {}
    if host_spec.port is not None:
        more["port"] = host_spec.port
    try:
        return asyncssh.SSHClientConnectionOptions(
            host=host_spec.host, config=[str(file) for file in files], client_keys=None, known_hosts=b"", **more
        )
    except (asyncssh.ConfigParseError, UnicodeDecodeError) as error:
        raise Refused(
            f"The SSH configuration of {_person()} cannot be read: {error}. Correct it, or do not use it in the target."
        ) from None
    except (ValueError, OSError) as error:
        raise Refused(f"The host {host_spec.host} cannot be resolved: {error}.") from None


def _certificates(config: Any) -> list[str]:
    return [os.path.expanduser(str(name)) for name in config.get("CertificateFile", ())]


def _config_files() -> tuple[Path, ...]:
    files = (Path("~/.ssh/config").expanduser(), SYSTEM_CONFIG)
    return tuple(file for file in files if file.is_file() and os.access(file, os.R_OK))


def _agent(configured: Any) -> str:
    """The socket of the agent, as ssh_config(5) says of IdentityAgent."""
    if configured is None or configured == "SSH_AUTH_SOCK":
        return os.environ.get("SSH_AUTH_SOCK", "")
    text = str(configured)
    if text.lower() == "none":
        return ""
    return os.environ.get(text[1:], "") if text.startswith("$") else os.path.expanduser(text)


def _expand(text: str, hop: Hop) -> str:
    """The tokens that ssh_config(5) allows in UserKnownHostsFile."""
    values = {"%": "%", "d": str(Path.home()), "h": hop.host, "n": hop.name, "p": str(hop.port), "r": hop.user}
    values |= {"u": _person(), "k": hop.alias or hop.host, "i": str(os.getuid())}
    return os.path.expanduser(re.sub(r"%(.)", lambda found: values.get(found[1], found[0]), text))


def _person() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"user {os.getuid()}"
