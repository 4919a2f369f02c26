"""Descriptions of a target for display: its host, its batch system, its host keys."""

import base64
import binascii
import hashlib

from ...domain.targets import Ssh, Target


def target_location(target: Target) -> str:
    """The host where jobs are submitted, with its jump hosts."""
    if target.ssh is None:
        return "this machine"
    through = f" through {', '.join(target.ssh.jump)}" if target.ssh.jump else ""
    return login(target.ssh) + through


def login(ssh: Ssh) -> str:
    """The host and the user, as far as the target specifies them."""
    host = f"[{ssh.host}]" if ":" in ssh.host and ssh.port else ssh.host
    return f"{ssh.user + '@' if ssh.user else ''}{host}{f':{ssh.port}' if ssh.port else ''}"


def fingerprint(line: str) -> str:
    """`SHA256:…` of the key in a line of a known_hosts file, as ssh shows it; empty without a valid key."""
    words = line.split()
    try:
        data = base64.b64decode(words[2], validate=True)
    except (IndexError, binascii.Error, ValueError):
        return ""
    return "SHA256:" + base64.b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")


def parse_host_key(line: str) -> tuple[str, str]:
    """(hosts, key type) of such a line."""
    words = [*line.split(), "", ""]
    return words[0], words[1]
