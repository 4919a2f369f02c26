"""Prompts at the terminal for secrets, also while a command waits for a job.

A separate thread reads the terminal, so that Ctrl-C still requests the end of the job.
"""

import atexit
import contextlib
import getpass
import os
import sys
import termios
import threading
import time
from collections.abc import Sequence

from perfloom.domain.errors import Prompt
from perfloom.store import Store
from perfloom.store.jobs import Job

from ..base.secret_provider import SecretProvider


class TerminalSecrets:
    """Secrets by the name of their prompt. Prompts when a secret is first needed, and again after a wrong one.

    asking: whether a prompt is open. declined: whether the user typed nothing, or there is no terminal.
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
        """Forget a secret that was wrong or is valid only once."""
        with self._lock:
            self._known.pop(prompt.name, None)


class SecretPrompter:
    """Prompts for the secrets that a job needs, and sends them, encrypted, to the workers at its target."""

    def __init__(self, store: Store, ask: SecretProvider) -> None:
        self._store = store
        self._ask = ask
        self._sent_at = 0.0
        self._thread: threading.Thread | None = None
        self._typed: dict[str, str] = {}
        self.declined = False

    @property
    def asking(self) -> bool:
        """Whether a prompt is open."""
        return self._thread is not None and self._thread.is_alive()

    def prompt_for(self, job: Job) -> bool:
        """Prompt for the secrets that a job waits for. Returns True after they were sent: then notify a worker."""
        if self.asking:
            return False
        if self._thread is not None:
            self._thread = None
            return bool(self._typed) and self._send(job)
        # A worker that needs secrets after some were sent found those wrong.
        needed_secrets = job.details.needed_secrets
        if needed_secrets and not self.declined and (job.details.secrets_needed_at or 0.0) > self._sent_at:
            self._thread = threading.Thread(target=self._read, args=(needed_secrets,), name="asking", daemon=True)
            self._thread.start()
        return False

    def _read(self, prompts: Sequence[Prompt]) -> None:
        found = {prompt.name: self._ask(prompt) for prompt in prompts}
        self._typed = {name: value for name, value in found.items() if value is not None}
        self.declined = len(self._typed) < len(found)

    def _send(self, job: Job) -> bool:
        # Imported here because it loads the library of encryption, which most commands do not need.
        from perfloom.worker_secrets import send_secrets

        sealed = send_secrets(self._store, f"job:{job.id}", self._typed)
        self._typed = {}
        self._sent_at = time.time()
        return sealed


def ask_on_terminal(prompt: Prompt) -> str | None:
    """Prompt at the terminal; None without a terminal or if nothing is typed."""
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

        # Ctrl-C at the prompt ends the program without running the thread's `finally`, and would leave echo disabled.
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
