"""Authentication at one host: which keys are offered, which secrets are requested, and why it failed."""

import asyncio
import concurrent.futures
import contextlib
import os
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import asyncssh

from perfloom.domain.errors import PASSWORD, Prompt, Refused, SecretNeeded
from perfloom.domain.text import sanitize_line

from ..base.secret_provider import SecretInvalidator, SecretProvider
from .hops import Hop

MAX_PROMPT = 200


class HostSecrets:
    """Requests the secrets of one host, and records which were missing and which were sent. The login timeout is paused
    meanwhile, because a user may have to type. own: whether it is the target itself."""

    def __init__(self, secrets: SecretProvider, hop: Hop, *, own: bool) -> None:
        self.secrets = secrets
        self.hop = hop
        self.own = own
        self.missing: dict[str, Prompt] = {}
        self.sent: dict[str, Prompt] = {}
        self.once: dict[str, Prompt] = {}
        self._limit: asyncio.Timeout | None = None

    @contextlib.asynccontextmanager
    async def time_limit(self, seconds: float) -> Any:
        """A timeout for the block, which excludes the time of prompts. Raises TimeoutError."""
        async with asyncio.timeout(seconds) as self._limit:
            yield

    def password(self) -> Prompt:
        name = PASSWORD if self.own else f"password {self.hop.login}"
        return Prompt(name, f"Password of {self.hop.user} on {self.hop.title}")

    def passphrase(self, path: str) -> Prompt:
        return Prompt(f"passphrase {path}", f"Passphrase of the key {path}")

    def answer(self, question: str) -> Prompt:
        """The answer to a server's own prompt, such as for a one-time code; None without one."""
        asked = sanitize_line(question).strip(" :")[:MAX_PROMPT] or "Answer"
        return Prompt(f"answer {self.hop.login} {asked}", f"{asked} ({self.hop.user} on {self.hop.title})")

    async def ask(self, prompt: Prompt) -> str | None:
        """The secret; None without one, or if it was already tried."""
        if prompt.name in self.sent:
            return None
        limit, loop = self._limit, asyncio.get_running_loop()
        when = limit.when() if limit is not None else None
        left = None if when is None else when - loop.time()
        if limit is not None:
            limit.reschedule(None)
        try:
            found = await _in_thread(self.secrets, prompt)
        finally:
            if limit is not None and left is not None:
                limit.reschedule(loop.time() + left)
        if found is None:
            self.missing[prompt.name] = prompt
        else:
            self.sent[prompt.name] = prompt
        return found

    def invalidate(self, prompt: Prompt) -> None:
        """Forget a secret that is invalid."""
        self.sent.pop(prompt.name, None)
        if isinstance(self.secrets, SecretInvalidator):
            self.secrets.invalidate(prompt)

    def invalidate_codes(self) -> None:
        """Forget one-time codes, which are valid only once even if the login failed."""
        for prompt in self.once.values():
            if prompt.name in self.sent:
                self.invalidate(prompt)


class Login(asyncssh.SSHClient):
    """asyncssh's callbacks for the login to `hop`. shown: the host's key if it is not trusted."""

    def __init__(self, hop: Hop, asking: HostSecrets, *, passwords: bool) -> None:
        self.hop = hop
        self.asking = asking
        self.passwords = passwords
        self.shown: asyncssh.SSHKey | None = None
        self.offered = 0
        self.asked_for_password = False
        self.questions = True
        self.wrong: dict[str, Prompt] = {}
        self.unreadable = ""
        self._agent: asyncssh.SSHAgentClient | None = None
        self._sources: list[Callable[[], Awaitable[Sequence[Any]]]] | None = None
        self._ready: list[Any] = []
        self._asked: list[concurrent.futures.Future[str | None]] = []

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        """Called for an unknown host key; never accepts it."""
        self.shown = key
        return False

    async def public_key_auth_requested(self) -> Any:
        """The next key to offer: the agent's, then those of files."""
        if self._sources is None:
            self._sources = [self._agent_keys]
            self._sources += [self._file_keys(path) for path in self.hop.key_files]
        while not self._ready and self._sources:
            self._ready += await self._sources.pop(0)()
        if not self._ready:
            return None
        self.offered += 1
        return [self._ready.pop(0)]

    async def _agent_keys(self) -> Sequence[Any]:
        if not self.hop.agent:
            return ()
        found = (_public_data(path) for path in self.hop.key_files)
        configured_keys = [data for data in found if data is not None]
        if self.hop.identities_only and not configured_keys:
            return ()
        try:
            self._agent = await asyncssh.connect_agent(self.hop.agent)
            keys = await self._agent.get_keys(configured_keys if self.hop.identities_only else None)
            # A host disconnects after some wrong keys, so configured ones are tried first.
            return sorted(keys, key=lambda one: one.public_data not in configured_keys)
        except (OSError, ValueError, asyncssh.Error):
            # The agent has ended with its session; other keys may work.
            return ()

    def _file_keys(self, path: str) -> Callable[[], Awaitable[Sequence[Any]]]:
        async def keys() -> Sequence[Any]:
            loop = asyncio.get_running_loop()

            def passphrase(_: str) -> str:
                # If the public key is available, the private one is decrypted only after the host has accepted the key.
                asked = asyncio.run_coroutine_threadsafe(self._passphrase(path), loop)
                self._asked.append(asked)
                if (found := asked.result()) is None:
                    raise asyncssh.KeyImportError("Passphrase must be specified")
                return found

            def load() -> Sequence[Any]:
                pairs: Any = asyncssh.load_keypairs
                word: Any = None
                try:
                    asyncssh.read_private_key(path)
                except asyncssh.KeyImportError as error:
                    if not str(error).startswith("Passphrase"):
                        raise
                    word = passphrase if _public_data(path) is not None else passphrase(path)
                return pairs([path], word, self.hop.certificates)  # type: ignore[no-any-return]

            try:
                # Decryption is slow by design, and a prompt waits for a user.
                return await loop.run_in_executor(None, load)
            except (OSError, UnicodeDecodeError) as error:
                self.unreadable = f"The key file {path} cannot be read: {getattr(error, 'strerror', None) or error}."
            except (ValueError, asyncssh.Error) as error:
                if not self.asking.missing and not self.wrong:
                    self.unreadable = f"The key file {path} cannot be used: {error}."
            return ()

        return keys

    async def _passphrase(self, path: str) -> str | None:
        """A passphrase that decrypts the key file, or None."""
        prompt = self.asking.passphrase(path)
        passphrase = await self.asking.ask(prompt)
        if passphrase is None:
            return None
        try:
            await asyncio.get_running_loop().run_in_executor(None, asyncssh.read_private_key, path, passphrase)
        except (OSError, ValueError, asyncssh.Error):
            self.wrong[prompt.name] = prompt
            self.asking.invalidate(prompt)
            return None
        return passphrase

    async def password_auth_requested(self) -> str | None:
        """The password, once."""
        self.asked_for_password = True
        return await self.asking.ask(self.asking.password()) if self.passwords else None

    def password_change_requested(self, prompt: str, lang: str) -> Any:
        """Passwords are not changed."""
        raise Refused(
            f"The password of {self.hop.user} on {self.hop.title} has expired. Log in there, and set a new one."
        )

    def kbdint_auth_requested(self) -> str | None:
        """Whether to try keyboard-interactive authentication. Not again after a try without any question: a host
        without PAM (UsePAM no) offers it anyway, and disconnects before the password is tried."""
        self.asked_for_password = True
        asked, self.questions = self.questions, False
        return "" if self.passwords and asked else None

    async def kbdint_challenge_received(
        self, name: str, instructions: str, lang: str, prompts: Sequence[tuple[str, bool]]
    ) -> list[str] | None:
        """Answers to the server's questions; None if one is missing."""
        self.questions = bool(prompts) or self.questions
        answers = []
        for text, echo in prompts:
            plain = text.strip().lower().rstrip(": ")
            # PAM's first question is the password; its text may contain the user's name.
            if not echo and (plain.endswith("password") or plain.startswith("password for")) and "one" not in plain:
                prompt = self.asking.password()
            else:
                prompt = self.asking.answer(text)
                self.asking.once[prompt.name] = prompt
            answers.append(await self.asking.ask(prompt))
        return None if None in answers else [answer for answer in answers if answer is not None]

    async def done(self) -> None:
        """Disconnect from the agent, and cancel open prompts."""
        self.asking.invalidate_codes()
        for asked in self._asked:
            asked.cancel()
        if self._agent is not None:
            self._agent.close()
            await self._agent.wait_closed()
            self._agent = None

    def refused(self, on_the_way: str, earlier: Sequence[Prompt] = (), *, hung_up: bool = False) -> Refused:
        """The error for a rejected login. earlier: prompts of the jump hosts, which will be needed again at the next
        try. hung_up: the host disconnected before all methods were tried."""
        host = f"{self.hop.title}{on_the_way}"
        wrong, missing, sent = dict(self.wrong), self.asking.missing, list(self.asking.sent.values())
        if not missing:
            wrong |= {name: one for name, one in self.asking.sent.items() if not name.startswith("passphrase ")}
        for prompt in wrong.values():
            if prompt.name not in self.wrong:
                self.asking.invalidate(prompt)
        if needed := tuple({**wrong, **missing}.values()):
            texts = "; ".join(prompt.text for prompt in needed)
            text = "did not accept the secret. Enter it again" if wrong else "requires a secret. Enter it"
            everything = {prompt.name: prompt for prompt in (*earlier, *sent, *needed)}
            return SecretNeeded(f"{host} {text}: {texts}.", tuple(everything.values()))
        if hung_up and self.offered:
            return Refused(
                f"{host} closed the connection after too many keys. Set the right key file in the target, or do not "
                "use the keys of the SSH agent."
            )
        if hung_up:
            return Refused(
                f"{host} closed the connection after too many login attempts as {self.hop.user}. "
                "Ask its administrator which login methods it allows, and to raise MaxAuthTries in its sshd_config."
            )
        if self.unreadable and not self.offered:
            return Refused(f"{self.unreadable} Login to {host} failed. Check the target's key file.")
        keys = f"none of {self.offered} keys that were offered" if self.offered > 1 else "the key that was offered"
        reason = f"accepts {keys}" if self.offered > 1 else f"does not accept {keys}"
        if not self.offered:
            reason = "was offered no key, as none was found"
        more = "" if self.passwords or not self.asked_for_password else " Or let the target ask for a password."
        return Refused(
            f"{host} rejected the login of {self.hop.user}: it {reason}. Check the user name and the key. The public "
            f"key must be in ~/.ssh/authorized_keys there.{more}"
        )


async def _in_thread(secrets: SecretProvider, prompt: Prompt) -> str | None:
    """The answer of a user. Not in a thread of a pool, because the end of this process must not wait for a user."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[str | None] = loop.create_future()

    def tell(found: str | None, failure: BaseException | None) -> None:
        if answer.cancelled():
            return
        if failure is not None:
            answer.set_exception(failure)
        else:
            answer.set_result(found)

    def ask() -> None:
        found, failure = None, None
        try:
            found = secrets(prompt)
        except BaseException as error:
            failure = error
        with contextlib.suppress(RuntimeError):  # The event loop has ended meanwhile.
            loop.call_soon_threadsafe(tell, found, failure)

    threading.Thread(target=ask, name="asks", daemon=True).start()
    return await answer


def _public_data(path: str) -> bytes | None:
    """The public key of a private key, as an agent identifies it."""
    for name in (f"{path}.pub", path):
        if not os.path.isfile(name):
            continue
        with contextlib.suppress(OSError, ValueError, asyncssh.Error):
            return asyncssh.read_public_key(name).public_data
    return None
