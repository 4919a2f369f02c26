"""The secrets of workers, which are encrypted in the database.

The parent of the workers (`services.ProcessManager`) generates a key pair when it starts. Its children inherit a
descriptor of a file in memory with the private key. The key is in no environment, on no command line and on no disk.
When the parent ends, the key is lost, and so are secrets that were encrypted to it: jobs then ask for them again.
"""

import contextlib
import logging
import os
import time
from collections.abc import Sequence

from perfloom.domain.errors import PerfloomError, Prompt
from perfloom.sealing import KeyPair, SealedBoxError, seal
from perfloom.store import Store

from ..base.facts_probe import host_name
from ..base.secret_provider import SecretProvider, no_secrets

KEY_BYTES = 32

log = logging.getLogger(__name__)
_key_pair: KeyPair | None = None


def make_key(store: Store) -> int:
    """For the parent of workers: generate a key pair and publish its public key. Returns a descriptor that any number
    of children can inherit."""
    pair = KeyPair.generate()
    descriptor = os.memfd_create("perfloom-key", os.MFD_CLOEXEC)
    os.write(descriptor, pair.to_bytes())
    store.hosts.publish_key(host_name(), pair.key_id, pair.public)
    return descriptor


def take_key(descriptor: int) -> None:
    """For a worker: read the key pair from an inherited descriptor, and close it, so that no program that the worker
    starts inherits it."""
    global _key_pair
    try:
        _key_pair = KeyPair.from_bytes(os.pread(descriptor, KEY_BYTES, 0))
    finally:
        os.close(descriptor)


class SealedSecrets:
    """Provides secrets that were encrypted to this process's key, from the first of `subjects` that has them."""

    def __init__(self, store: Store, subjects: tuple[str, ...], pair: KeyPair) -> None:
        self._store = store
        self._subjects = subjects
        self._pair = pair

    def __call__(self, prompt: Prompt) -> str | None:
        for subject in self._subjects:
            secrets, _ = self._open_secrets(subject)
            if prompt.name in secrets:
                return secrets[prompt.name]
        return None

    def invalidate(self, prompt: Prompt) -> None:
        """Delete a secret that is wrong or valid only once; keep the others of its subject."""
        for subject in self._subjects:
            secrets, expires = self._open_secrets(subject)
            if secrets.pop(prompt.name, None) is not None:
                box = seal(self._pair.public, secrets, subject, expires)
                with contextlib.suppress(PerfloomError):
                    self._store.credentials.put(subject, host_name(), self._pair.key_id, box, expires)

    def _open_secrets(self, subject: str) -> tuple[dict[str, str], float]:
        """The secrets of a subject for this key, and when they expire (epoch seconds); none and 0 without any."""
        for box in self._store.credentials.get(subject):
            if box.key_id == self._pair.key_id:
                try:
                    return self._pair.open(box.sealed, subject, time.time()), box.expires
                except SealedBoxError as error:
                    log.warning("secrets for %s were ignored: %s", subject, error)
        return {}, 0.0


def secrets_for(store: Store, target: str, jobs: Sequence[str] = ()) -> SecretProvider:
    """The provider of secrets for a target: those typed for one of these jobs, or for a check of the target."""
    if _key_pair is None:
        return no_secrets
    return SealedSecrets(store, (*(f"job:{id}" for id in jobs), f"target:{target}"), _key_pair)
