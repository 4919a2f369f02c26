"""Is that the host it should be? What known_hosts files say, and what to tell a person who has to decide.

Entries are read by asyncssh: hashed names, patterns, @revoked and @cert-authority as sshd(8) describes them. A host is
known by its name alone, not by its address, so that nobody who bends a name to the address of another known host is
taken for the one that was asked for.
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
    """What is known of one host. keys: its keys. elsewhere: those known of the same name on the usual port, which
    count where they match and prove nothing where they do not."""

    keys: tuple[asyncssh.SSHKey, ...] = ()
    elsewhere: tuple[asyncssh.SSHKey, ...] = ()
    authorities: tuple[asyncssh.SSHKey, ...] = ()
    revoked: tuple[asyncssh.SSHKey, ...] = ()
    sources: dict[str, str] = field(default_factory=dict)
    """Where each key was found, by fingerprint."""

    @property
    def trusted(self) -> tuple[tuple[asyncssh.SSHKey, ...], ...]:
        """As asyncssh takes it."""
        return (self.keys + self.elsewhere, self.authorities, self.revoked, (), (), (), ())

    @property
    def algorithms(self) -> list[str]:
        """What the host is asked to show: a key of the kind that is known, if it has one."""
        names = [name for key in self.keys + self.elsewhere for name in key.sig_algorithms]
        certificates = get_default_certificate_algs() if self.authorities else []
        return [name.decode() for name in dict.fromkeys([*certificates, *names, *get_default_public_key_algs()])]


def find_known_keys(hop: Hop, accepted: Iterable[str]) -> KnownKeys:
    """All that is known of a host. accepted: lines beside those of its files. What cannot be read is passed over, as
    ssh does it."""
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
    """The error where a host showed a key that is not known to be its own. shown: None where it showed a certificate
    that does not hold. on_the_way: words on what host it is, where it is not the target itself."""
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
    """The error where a host showed a key that its owner has withdrawn."""
    return Refused(
        f"{hop.title}{on_the_way} presented a key that is revoked in the known_hosts files. It may be compromised. "
        "Ask the host's administrator."
    )


def _without_comment(line: str) -> str:
    return " ".join(line.split()[:3])


def _kind(key: asyncssh.SSHKey) -> str:
    return key.get_algorithm()
