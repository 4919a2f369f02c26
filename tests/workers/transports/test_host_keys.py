"""Host keys: known, unknown, changed, revoked, certified."""

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from perfloom.domain.errors import HostKeyUnknown, Refused
from perfloom.recording.probe.target_text import fingerprint
from tests.support.sshd import Sshd, key, public, sshd
from tests.workers.transports.refusals import failure, works


def mark(name: str) -> str:
    argv = ["ssh-keygen", "-l", "-f", f"{key(name)}.pub"]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.split()[1]


def known_hosts(home: Path, *lines: str) -> None:
    (home / ".ssh" / "known_hosts").write_text("".join(f"{line}\n" for line in lines))


def test_an_unknown_key_is_shown_and_never_accepted_by_itself(far_host: Sshd, no_home: Path) -> None:
    for _ in range(2):
        error = failure(far_host.ssh(host_keys=()))
        assert isinstance(error, HostKeyUnknown)
        assert error.fingerprint == mark("host") == fingerprint(error.key)
        assert error.key == far_host.known
        assert mark("host") in error.message and far_host.host in error.message and str(far_host.port) in error.message
    assert list((no_home / ".ssh").iterdir()) == []
    assert works(far_host.ssh(host_keys=(error.key,)))


def test_unknown_key_is_never_accepted(far_host: Sshd, no_home: Path) -> None:
    """What people write to be left in peace."""
    (no_home / ".ssh" / "config").write_text(
        "Host *\n StrictHostKeyChecking no\n UserKnownHostsFile none\n GlobalKnownHostsFile none\n"
    )
    assert isinstance(failure(far_host.ssh(host_keys=(), config=True)), HostKeyUnknown)
    (no_home / ".ssh" / "config").write_text(
        "Host *\n StrictHostKeyChecking accept-new\n UserKnownHostsFile /dev/null\n"
    )
    assert isinstance(failure(far_host.ssh(host_keys=(), config=True)), HostKeyUnknown)


def test_keys_of_the_users_own_file_count_in_every_spelling(far_host: Sshd, no_home: Path) -> None:
    ssh = far_host.ssh(host_keys=())
    known_hosts(
        no_home, "# a comment", "", "not a line", "@what is this", "host ssh-ed25519 AAAAnonsense", far_host.known
    )
    assert works(ssh)
    known_hosts(no_home, far_host.known)
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", no_home / ".ssh" / "known_hosts"], check=True, capture_output=True)
    assert "127.0.0.1" not in (no_home / ".ssh" / "known_hosts").read_text()
    assert works(ssh)
    known_hosts(no_home, f"other.example,[127.0.0.*]:{far_host.port} {far_host.host_key} with a comment")
    assert works(ssh)
    # A key of the host on its usual port is as good, as for ssh.
    known_hosts(no_home, f"127.0.0.1 {far_host.host_key}")
    assert works(ssh)


def test_a_key_of_another_host_proves_nothing(far_host: Sshd, no_home: Path) -> None:
    known_hosts(no_home, f"other.example {far_host.host_key}", f"[127.0.0.1]:1 {far_host.host_key}")
    assert isinstance(failure(far_host.ssh(host_keys=())), HostKeyUnknown)
    # Another server on the usual port of the same machine is no reason to call this one changed.
    known_hosts(no_home, f"127.0.0.1 {public(key('host2'))}")
    assert isinstance(failure(far_host.ssh(host_keys=())), HostKeyUnknown)


def test_a_name_that_leads_to_a_known_address_is_not_known_by_that(far_host: Sshd, no_home: Path) -> None:
    known_hosts(no_home, far_host.known)
    error = failure(far_host.ssh(host="localhost", host_keys=()))
    assert isinstance(error, HostKeyUnknown) and error.key.startswith("[localhost]:")


@pytest.mark.parametrize("other", ["host2", "host-ecdsa"])
def test_a_changed_key_is_refused_with_both_fingerprints(far_host: Sshd, no_home: Path, other: str) -> None:
    changed = far_host.known.replace(far_host.host_key, public(key(other)))
    known_hosts(no_home, "other.example " + far_host.host_key, changed)
    error = failure(far_host.ssh(host_keys=()))
    assert type(error) is Refused
    assert mark("host") in error.message and mark(other) in error.message and "line 2" in error.message
    assert "ssh-keygen -R" in error.message and far_host.host in error.message
    accepted = failure(far_host.ssh(host_keys=(changed,)))
    assert type(accepted) is Refused and "accepted for this target" in accepted.message


def test_known_key_type_is_requested(far_host: Sshd, make_host: Callable[..., Sshd], no_home: Path) -> None:
    """A host has keys of several kinds; the one that is known is shown, whatever kind it is."""
    host = make_host(options=[f"HostKey {key('host-ecdsa')}"])
    for name in ("host", "host-ecdsa"):
        assert works(host.ssh(host_keys=(f"[127.0.0.1]:{host.port} {public(key(name))}",)))


def test_a_revoked_key_is_refused(far_host: Sshd, no_home: Path) -> None:
    known_hosts(no_home, f"@revoked * {far_host.host_key}")
    for accepted in ((), (far_host.known,)):
        error = failure(far_host.ssh(host_keys=accepted))
        assert type(error) is Refused and "revoked" in error.message


def test_a_certificate_of_a_known_authority_is_good(
    make_host: Callable[..., Sshd], no_home: Path, tmp_path: Path
) -> None:
    authority, own = key("host2"), tmp_path / "own"
    for name in ("own", "own.pub"):
        source = key("host-ecdsa")
        (tmp_path / name).write_bytes(Path(f"{source}{name.removeprefix('own')}").read_bytes())
    own.chmod(0o600)
    argv = ["ssh-keygen", "-q", "-s", authority, "-I", "test", "-h", "-n", "127.0.0.1", own]
    subprocess.run(argv, check=True, capture_output=True)
    host = make_host(options=[f"HostKey {own}", f"HostCertificate {own}-cert.pub"])
    known_hosts(no_home, f"@cert-authority *,[127.0.0.1]:* {public(authority)}")
    assert works(host.ssh(host_keys=()))
    # A host that shows no certificate is as unknown as any other.
    plain = make_host()
    assert isinstance(failure(plain.ssh(host_keys=())), HostKeyUnknown)
    # Another authority: its key is unknown.
    known_hosts(no_home, f"@cert-authority [127.0.0.1]:* {public(key('client'))}")
    assert type(failure(host.ssh(host_keys=()))) is Refused
    known_hosts(no_home, f"@revoked * {public(authority)}", f"@cert-authority [127.0.0.1]:* {public(authority)}")
    assert type(failure(host.ssh(host_keys=()))) is Refused


def test_key_of_the_jump_host_is_checked(far_host: Sshd, no_home: Path) -> None:
    with sshd(host_key="host2") as jump:
        way = f"{jump.user}@{jump.host}:{jump.port}"
        ssh = far_host.ssh(jump=(way,), host_keys=(far_host.known, jump.known))
        assert works(ssh)
        error = failure(replace(ssh, host_keys=(far_host.known,)))
        assert isinstance(error, HostKeyUnknown)
        assert error.key == jump.known and str(jump.port) in error.host
        assert "a jump host of" in error.message and str(far_host.port) in error.message
        behind = failure(replace(ssh, host_keys=(jump.known,)))
        assert isinstance(behind, HostKeyUnknown) and behind.key == far_host.known
        wrong = jump.known.replace(jump.host_key, far_host.host_key)
        changed = failure(replace(ssh, host_keys=(far_host.known, wrong)))
        assert type(changed) is Refused and "a jump host of" in changed.message and "has changed" in changed.message
