"""How a person reads of a target: where it is, its batch system, keys of its hosts."""

import base64
import binascii
import hashlib

from ...domain.targets import Ssh, Target


def target_location(target: Target) -> str:
    """The host that jobs are handed to, and the way there."""
    if target.ssh is None:
        return "this machine"
    through = f" through {', '.join(target.ssh.jump)}" if target.ssh.jump else ""
    return login(target.ssh) + through


def login(ssh: Ssh) -> str:
    """The host and who logs in there, as far as the target says it."""
    host = f"[{ssh.host}]" if ":" in ssh.host and ssh.port else ssh.host
    return f"{ssh.user + '@' if ssh.user else ''}{host}{f':{ssh.port}' if ssh.port else ''}"


def fingerprint(line: str) -> str:
    """`SHA256:…` of the key in a line of a known_hosts file, as ssh shows it; empty where there is none in it."""
    words = line.split()
    try:
        data = base64.b64decode(words[2], validate=True)
    except (IndexError, binascii.Error, ValueError):
        return ""
    return "SHA256:" + base64.b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")


def parse_host_key(line: str) -> tuple[str, str]:
    """(hosts, sort of the key) of such a line."""
    words = [*line.split(), "", ""]
    return words[0], words[1]
