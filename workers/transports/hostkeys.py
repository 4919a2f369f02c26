"""Verification of host keys with known_hosts files, and the messages about unknown keys.

asyncssh parses the entries: hashed names, patterns, @revoked and @cert-authority as in sshd(8). A host is known by
name, not address, so a spoofed DNS entry does not match another known host.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import asyncssh
from asyncssh.public_key import get_default_certificate_algs, get_default_public_key_algs

from perfloom.domain.errors import HostKeyUnknown, Refused

from .hops import DEFAULT_PORT, Hop


@dataclass(frozen=True)
class KnownKeys:
    """The known keys of a host. keys: its keys. elsewhere: keys of the same name on port 22, which are accepted if they
    match; a mismatch does not mean that the key changed."""

    keys: tuple[asyncssh.SSHKey, ...] = ()
    elsewhere: tuple[asyncssh.SSHKey, ...] = ()
    authorities: tuple[asyncssh.SSHKey, ...] = ()
    revoked: tuple[asyncssh.SSHKey, ...] = ()
    sources: dict[str, str] = field(default_factory=dict)
    """Where each key was found, by fingerprint."""

    @property
    def trusted(self) -> tuple[tuple[asyncssh.SSHKey, ...], ...]:
        """In asyncssh's format."""
        return (self.keys + self.elsewhere, self.authorities, self.revoked, (), (), (), ())

    @property
    def algorithms(self) -> list[str]:
        """The algorithms to request: those of the known keys first."""
        names = [name for key in self.keys + self.elsewhere for name in key.sig_algorithms]
        certificates = get_default_certificate_algs() if self.authorities else []
        return [name.decode() for name in dict.fromkeys([*certificates, *names, *get_default_public_key_algs()])]


def find_known_keys(hop: Hop, accepted: Iterable[str]) -> KnownKeys:
    """The known keys of a host. accepted: lines in addition to those of its files. Unreadable files and lines are
    skipped, as ssh does."""
    keys: list[asyncssh.SSHKey] = []
    elsewhere: list[asyncssh.SSHKey] = []
    authorities: list[asyncssh.SSHKey] = []
    revoked: list[asyncssh.SSHKey] = []
    sources: dict[str, str] = {}
    names = [hop.known_hosts_name]
    if hop.port != DEFAULT_PORT and not hop.alias:
        names.append(hop.host.lower())
    for where, line in _lines(hop, accepted):
        known = asyncssh.import_known_hosts("")
        try:
            known.load(line)
        except (ValueError, asyncssh.Error):
            continue
        for name in names:
            hosts, signers, bad = known.match(name, "", None)[:3]
            (keys if name == names[0] else elsewhere).extend(hosts)
            authorities.extend(signers)
            revoked.extend(bad)
            for key in (*hosts, *signers):
                sources.setdefault(key.get_fingerprint(), where)
    return KnownKeys(tuple(keys), tuple(elsewhere), tuple(authorities), tuple(revoked), sources)


def _lines(hop: Hop, accepted: Iterable[str]) -> Iterable[tuple[str, str]]:
    for line in accepted:
        yield "the keys accepted for this target", line
    for name in hop.known_hosts:
        try:
            text = Path(name).read_text(errors="replace")
        except OSError:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip() and not line.lstrip().startswith("#"):
                yield f"{name}, line {number}", line


def untrusted_key_error(hop: Hop, known_keys: KnownKeys, shown: asyncssh.SSHKey | None, on_the_way: str) -> Refused:
    """The error for a host with an unknown or changed key. shown: the key; None for an invalid certificate. on_the_way:
    text that identifies a jump host, empty for the target."""
    host = f"{hop.title}{on_the_way}"
    if shown is None:
        return Refused(
            f"{host} presented a certificate that is not valid for it, or whose authority is unknown here. Ask its "
            "administrator."
        )
    mark = shown.get_fingerprint()
    if not known_keys.keys:
        text = (
            f"The key of {host} is not known yet. Its fingerprint is {mark} ({_kind(shown)}). Compare it with the "
            "fingerprint from the host's administrator, and accept it if they are the same."
        )
        line = f"{hop.known_hosts_name} {shown.export_public_key().decode().strip()}"
        return HostKeyUnknown(text, hop.title, _without_comment(line), mark)
    expected = "; ".join(
        f"{key.get_fingerprint()} ({_kind(key)}, {known_keys.sources.get(key.get_fingerprint(), 'a known_hosts file')})"
        for key in known_keys.keys
    )
    return Refused(
        f"The key of {host} has changed. Expected: {expected}. Presented: {mark} ({_kind(shown)}). Either the "
        "host was reinstalled, or someone intercepts the connection. Ask its administrator. If the new key is "
        f"right, remove the old one (ssh-keygen -R '{hop.known_hosts_name}' for ~/.ssh/known_hosts), then check the "
        "target again."
    )


def revoked_key_error(hop: Hop, on_the_way: str) -> Refused:
    """The error for a host with a revoked key."""
    return Refused(
        f"{hop.title}{on_the_way} presented a key that is revoked in the known_hosts files. It may be compromised. "
        "Ask the host's administrator."
    )


def _without_comment(line: str) -> str:
    return " ".join(line.split()[:3])


def _kind(key: asyncssh.SSHKey) -> str:
    return key.get_algorithm()
