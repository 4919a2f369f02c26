"""Sending secrets to workers: encrypted to the key of each running worker, so that only those can open them."""

import time
from collections.abc import Mapping

from .sealing import seal
from .store import Host, Store

SECRET_LIFETIME_SECONDS = 3600.0
"""How long a worker can decrypt typed secrets. Its connection is kept for longer; without one it asks again."""


def secret_recipients(store: Store) -> tuple[Host, ...]:
    """The running workers with a public key."""
    return tuple(host for host in store.hosts.list_alive() if host.public_key is not None and host.key_id is not None)


def send_secrets(store: Store, subject: str, secrets: Mapping[str, str]) -> bool:
    """Encrypt `secrets` for "job:<id>" or "target:<name>" to each running worker. False without one."""
    there = secret_recipients(store)
    expires = time.time() + SECRET_LIFETIME_SECONDS
    for host in there:
        assert host.public_key is not None and host.key_id is not None
        sealed = seal(host.public_key, secrets, subject, expires)
        store.credentials.put(subject, host.name, host.key_id, sealed, expires)
    return bool(there)
