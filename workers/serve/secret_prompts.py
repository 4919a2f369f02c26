"""Asking the person at a terminal for the secrets of a job, while the job is followed.

A terminal is read in a thread of its own, so that whoever is asked can also ask for the end.
"""

import threading
import time
from collections.abc import Sequence

from perfloom.domain.errors import Prompt
from perfloom.store import Store
from perfloom.store.jobs import Job
from perfloom.worker_secrets import send_secrets

from ..transports.base import SecretProvider


class TerminalSecrets:
    """What was typed, by the name of its prompt; asked for when first needed, and again where it was wrong.

    asking: whether somebody is typing now. declined: whether nothing was typed, or nobody is there.
    """

    def __init__(self, ask: SecretProvider) -> None:
        self._ask = ask
        self._known: dict[str, str] = {}
        self._lock = threading.Lock()
        self.asking = False
        self.declined = False

    def __call__(self, prompt: Prompt) -> str | None:
        with self._lock:
            if prompt.name not in self._known:
                self.asking = True
                try:
                    found = self._ask(prompt)
                finally:
                    self.asking = False
                if found is None:
                    self.declined = True
                    return None
                self._known[prompt.name] = found
            return self._known[prompt.name]

    def invalidate(self, prompt: Prompt) -> None:
        """It was wrong, or of use once."""
        with self._lock:
            self._known.pop(prompt.name, None)


class SecretPrompter:
    """Brings what a worker needs for a job: asks for it here, and seals it for the workers that are there."""

    def __init__(self, store: Store, ask: SecretProvider) -> None:
        self._store = store
        self._ask = ask
        self._brought_at = 0.0
        self._thread: threading.Thread | None = None
        self._typed: dict[str, str] = {}
        self.declined = False

    @property
    def asking(self) -> bool:
        """Whether somebody is typing now."""
        return self._thread is not None and self._thread.is_alive()

    def prompt_for(self, job: Job) -> bool:
        """Ask for what a job newly waits for. True once it was typed and sealed: then a worker is to be rung for."""
        if self.asking:
            return False
        if self._thread is not None:
            self._thread = None
            return bool(self._typed) and self._send(job)
        # Whoever asks again after something was brought found it wrong.
        needed_secrets = job.details.needed_secrets
        if needed_secrets and not self.declined and (job.details.secrets_needed_at or 0.0) > self._brought_at:
            self._thread = threading.Thread(target=self._read, args=(needed_secrets,), name="asking", daemon=True)
            self._thread.start()
        return False

    def _read(self, prompts: Sequence[Prompt]) -> None:
        found = {prompt.name: self._ask(prompt) for prompt in prompts}
        self._typed = {name: value for name, value in found.items() if value is not None}
        self.declined = len(self._typed) < len(found)

    def _send(self, job: Job) -> bool:
        sealed = send_secrets(self._store, f"job:{job.id}", self._typed)
        self._typed = {}
        self._brought_at = time.time()
        return sealed
