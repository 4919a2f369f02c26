"""Where workers have secrets from: sealed in the catalogue, or typed on a terminal.

The parent of a worker household makes one key pair when it starts. Its children get the private half through an
inherited descriptor of a file that exists in memory alone, and theirs by being forked; it is in no environment, on no
command line and on no disk. When the parent ends it is gone, and with it whatever was sealed to it: jobs that need a
secret then ask for it again.
"""

import atexit
import contextlib
import getpass
import logging
import os
import sys
import termios
import time
from collections.abc import Sequence

from perfloom.domain.errors import PerfloomError, Prompt
from perfloom.sealing import KeyPair, SealedBoxError, seal
from perfloom.store import Store

from ..local.facts_probe import host_name
from ..transports.base import SecretProvider, no_secrets

KEY_BYTES = 32

log = logging.getLogger(__name__)
_key_pair: KeyPair | None = None


def make_key(store: Store) -> int:
    """For the parent of a household: make its key pair and publish it. Returns a descriptor to hand to children, which
    may be read as often as children are started."""
    pair = KeyPair.generate()
    descriptor = os.memfd_create("perfloom-key", os.MFD_CLOEXEC)
    os.write(descriptor, pair.to_bytes())
    store.hosts.publish_key(host_name(), pair.key_id, pair.public)
    return descriptor


def take_key(descriptor: int) -> None:
    """For a child: take the key pair from an inherited descriptor, and close it, so that no program started from here
    inherits it."""
    global _key_pair
    try:
        _key_pair = KeyPair.from_bytes(os.pread(descriptor, KEY_BYTES, 0))
    finally:
        os.close(descriptor)


def use_key(pair: KeyPair | None) -> None:
    """The key pair of this process, or none."""
    global _key_pair
    _key_pair = pair


class SealedSecrets:
    """Gives secrets that were sealed to this process's key for one of `subjects`; the first that has one counts."""

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
        """Forget a secret that is wrong or was of use once; the others that came with it stay."""
        for subject in self._subjects:
            secrets, expires = self._open_secrets(subject)
            if secrets.pop(prompt.name, None) is not None:
                box = seal(self._pair.public, secrets, subject, expires)
                with contextlib.suppress(PerfloomError):
                    self._store.credentials.put(subject, host_name(), self._pair.key_id, box, expires)

    def _open_secrets(self, subject: str) -> tuple[dict[str, str], float]:
        """What is there for this key, and until when."""
        for box in self._store.credentials.get(subject):
            if box.key_id == self._pair.key_id:
                try:
                    return self._pair.open(box.sealed, subject, time.time()), box.expires
                except SealedBoxError as error:
                    log.warning("secrets for %s were ignored: %s", subject, error)
        return {}, 0.0


def secrets_for(store: Store, target: str, jobs: Sequence[str] = ()) -> SecretProvider:
    """The provider of secrets for a target: of what was typed for one of these jobs, or for a check of the target."""
    if _key_pair is None:
        return no_secrets
    return SealedSecrets(store, (*(f"job:{id}" for id in jobs), f"target:{target}"), _key_pair)


def ask_on_terminal(prompt: Prompt) -> str | None:
    """Ask the person at the terminal; None where there is none, or nothing is typed."""
    if not sys.stderr.isatty():
        return None
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        before = termios.tcgetattr(terminal)

        def restore() -> None:
            with contextlib.suppress(termios.error, OSError):
                termios.tcsetattr(terminal, termios.TCSADRAIN, before)

        # Whoever interrupts while typing ends the program, but not this: the terminal must show again what is typed.
        atexit.register(restore)
        try:
            return getpass.getpass(f"{prompt.text}: ") or None
        except (EOFError, OSError):
            return None
        finally:
            restore()
            atexit.unregister(restore)
    except termios.error:
        return None
    finally:
        os.close(terminal)
