"""Logging in: keys, agents, passphrases, passwords, one-time codes. And that no secret is shown anywhere."""

import contextlib
import logging
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perfloom.config import Settings
from perfloom.domain.errors import Prompt, Refused, SecretNeeded
from perfloom.domain.targets import Ssh
from perfloom.sealing import KeyPair, seal
from perfloom.store import open_store
from perfloom.workers import transports
from perfloom.workers.targets.secrets import SealedSecrets
from tests.support.sshd import WORD, Account, Sshd, key, make_key, public, sshd
from tests.workers.transports.asking import asker
from tests.workers.transports.refusals import failure, works
from tests.workers.waiting import until


class Person:
    """A provider with these secrets, which records requests and invalidated secrets."""

    def __init__(self, known: dict[str, str]) -> None:
        self.known = dict(known)
        self.asked: list[str] = []
        self.gone: list[str] = []

    def __call__(self, prompt: Prompt) -> str | None:
        self.asked.append(prompt.name)
        return self.known.get(prompt.name)

    def invalidate(self, prompt: Prompt) -> None:
        self.gone.append(prompt.name)
        self.known.pop(prompt.name, None)


@pytest.fixture
def nothing_shown(caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    """Fails where a secret was logged or printed."""
    caplog.set_level(logging.DEBUG)
    yield
    shown = caplog.text + "".join(capfd.readouterr())
    assert WORD not in shown and "open sesame" not in shown and "123456" not in shown and "wrong word" not in shown


def names(error: Exception) -> list[str]:
    assert isinstance(error, SecretNeeded), error
    assert WORD not in str(error) and "wrong word" not in str(error)
    return [prompt.name for prompt in error.prompts]


@pytest.fixture
def locked_key(tmp_path: Path) -> Path:
    return make_key(tmp_path / "locked", passphrase="open sesame")


@pytest.mark.usefixtures("nothing_shown", "no_home")
def test_passphrase_is_requested_for_accepted_key(
    locked_key: Path, make_host: Callable[..., Sshd], far_host: Sshd
) -> None:
    host, name = make_host(authorized=[locked_key]), f"passphrase {locked_key}"
    error = failure(host.ssh(key_file=str(locked_key)))
    assert names(error) == [name] and "Passphrase of the key" in error.message and host.host in error.message
    assert works(host.ssh(key_file=str(locked_key)), person := Person({name: "open sesame"}))
    assert person.asked == [name] and not person.gone
    error = failure(host.ssh(key_file=str(locked_key)), person := Person({name: "wrong word"}))
    assert names(error) == [name] and "did not accept" in error.message and person.gone == [name]
    # A host that does not take the key is no reason to ask.
    person = Person({name: "open sesame"})
    assert type(failure(far_host.ssh(key_file=str(locked_key)), person)) is Refused and person.asked == []


@pytest.mark.usefixtures("nothing_shown")
def test_key_without_public_part_is_decrypted_immediately(
    tmp_path: Path, make_host: Callable[..., Sshd], no_home: Path
) -> None:
    path = tmp_path / "pem"
    argv = ["ssh-keygen", "-q", "-t", "rsa", "-b", "2048", "-m", "PEM", "-N", "open sesame", "-f", path]
    subprocess.run(argv, check=True, capture_output=True)
    host = make_host(authorized=[path])
    Path(f"{path}.pub").rename(tmp_path / "elsewhere")
    person = Person({f"passphrase {path}": "open sesame"})
    assert works(host.ssh(key_file=str(path)), person) and person.asked


def test_the_usual_keys_of_the_home_are_tried(no_home: Path, make_host: Callable[..., Sshd]) -> None:
    make_key(no_home / ".ssh" / "id_ecdsa", kind="ecdsa")
    mine = make_key(no_home / ".ssh" / "id_ed25519")
    assert works(make_host(authorized=[mine]).ssh(key_file=""))
    (no_home / ".ssh" / "id_rsa").write_text("no key at all")
    assert works(make_host(authorized=[mine]).ssh(key_file=""))


@pytest.fixture
def agent(tmp_path: Path, short_path: Path) -> Iterator[Path]:
    """The socket of an agent that holds the client key and five others, the client key last."""
    socket = short_path / "agent"
    process = subprocess.Popen(
        ["setpriv", "--pdeathsig", "KILL", "ssh-agent", "-D", "-a", socket], stdout=subprocess.DEVNULL
    )
    try:
        until(socket.exists, "the agent is there")
        others = [make_key(tmp_path / f"other{number}") for number in range(5)]
        for one in (*others, key()):
            environment = {**os.environ, "SSH_AUTH_SOCK": str(socket)}
            subprocess.run(["ssh-add", "-q", one], env=environment, check=True, capture_output=True)
        yield socket
    finally:
        process.kill()
        process.wait()


def test_agent_is_used(
    agent: Path, no_home: Path, far_host: Sshd, make_host: Callable[..., Sshd], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSH_AUTH_SOCK", str(agent))
    patient = make_host(options=["MaxAuthTries 20"])
    assert works(patient.ssh(key_file="", agent=True))
    error = failure(patient.ssh(key_file="", agent=False))
    assert type(error) is Refused and "no key" in error.message
    # Six keys are too many for a host that allows three tries. With the right one named it is the only one that is tried.
    strict = make_host(options=["MaxAuthTries 3"])
    error = failure(strict.ssh(key_file="", agent=True))
    assert type(error) is Refused and "too many keys" in error.message
    (no_home / "mine.pub").write_text(public(key()))
    hidden = failure(strict.ssh(key_file=str(no_home / "mine"), agent=False))
    assert type(hidden) is Refused
    assert works(strict.ssh(key_file=str(no_home / "mine"), agent=True))
    monkeypatch.setenv("SSH_AUTH_SOCK", str(no_home / "no agent"))
    assert works(far_host.ssh(agent=True))


@pytest.mark.usefixtures("nothing_shown", "no_home")
def test_password_is_requested_if_target_says_so(make_host: Callable[..., Sshd]) -> None:
    host = make_host(account=Account(password=True), authorized=[])
    ssh = host.ssh(key_file="", password=True)
    error = failure(ssh)
    assert names(error) == ["password"] and "remote" in error.message and host.host in error.message
    person = Person({"password": WORD})
    assert works(ssh, person) and person.asked == ["password"] and not person.gone
    error = failure(ssh, person := Person({"password": "wrong word"}))
    assert names(error) == ["password"] and "did not accept" in error.message and person.gone == ["password"]
    # Never two wrong tries with one password: accounts are locked for that.
    assert host.log().count("Failed password") == 1
    error = failure(host.ssh(key_file=""))
    assert type(error) is Refused and "ask for a password" in error.message


@pytest.mark.usefixtures("nothing_shown", "no_home")
def test_host_without_questions_accepts_password(make_host: Callable[..., Sshd]) -> None:
    """sshd does so with UsePAM no, as KbdInteractiveAuthentication is its default."""
    host = make_host(account=Account(password=True), authorized=[], options=["KbdInteractiveAuthentication yes"])
    ssh = host.ssh(key_file="", password=True)
    error = failure(ssh)
    assert names(error) == ["password"]
    person = Person({"password": WORD})
    assert works(ssh, person) and person.asked == ["password"]
    error = failure(ssh, person := Person({"password": "wrong word"}))
    assert names(error) == ["password"] and "did not accept" in error.message and person.gone == ["password"]
    log = host.log()
    assert log.count("Failed password") == 1 and log.count("Failed keyboard-interactive") <= 3


@pytest.mark.usefixtures("nothing_shown", "no_home")
def test_a_host_that_hangs_up_early_was_offered_no_key(make_host: Callable[..., Sshd]) -> None:
    tries = "MaxAuthTries 1"
    host = make_host(account=Account(password=True), authorized=[], options=[tries])
    error = failure(host.ssh(key_file="", password=True), Person({"password": "wrong word"}))
    assert names(error) == ["password"] and "did not accept" in error.message
    host = make_host(account=Account(password=True), authorized=[], options=[tries, "KbdInteractiveAuthentication yes"])
    error = failure(host.ssh(key_file="", password=True), Person({"password": WORD}))
    assert type(error) is Refused and "too many keys" not in error.message and "MaxAuthTries" in error.message


@pytest.mark.usefixtures("nothing_shown", "no_home")
def test_a_key_and_a_password_together(make_host: Callable[..., Sshd]) -> None:
    host = make_host(account=Account(password=True), options=["AuthenticationMethods publickey,password"])
    assert works(host.ssh(password=True), Person({"password": WORD}))
    assert names(failure(host.ssh(password=True))) == ["password"]
    error = failure(host.ssh())
    assert type(error) is Refused and "ask for a password" in error.message


@pytest.mark.usefixtures("nothing_shown", "no_home")
def test_questions_of_the_host_are_passed_on_and_codes_are_used_once() -> None:
    seen: list[str] = []
    code = "answer me@127.0.0.1, port {} Code from your\x07 phone"
    with asker(
        [["Password: "], ["Code from your\x07 phone: "]],
        {"Password: ": WORD, "Code from your\x07 phone: ": "123456"},
        seen,
    ) as host:
        code = code.format(host.port).replace("\x07 ", " ")
        assert names(failure(host.ssh())) == ["password"]
        error = failure(host.ssh(), Person({"password": WORD}))
        assert names(error) == ["password", code]
        assert "Code from your phone" in error.message and "Password" not in error.message
        person = Person({"password": WORD, code: "123456"})
        assert works(host.ssh(), person) == "\n"
        assert person.gone == [code] and person.known == {"password": WORD}
        assert seen[-2:] == [WORD, "123456"]
        error = failure(host.ssh(), person := Person({"password": WORD, code: "000000"}))
        assert names(error) == ["password", code] and sorted(person.gone) == sorted(["password", code])
        assert seen.count("000000") == 1
        assert type(failure(host.ssh(password=False))) is Refused


@pytest.mark.usefixtures("nothing_shown", "no_home")
def test_questions_are_asked_together() -> None:
    seen: list[str] = []
    with asker([["Password: ", "PIN: "], []], {"Password: ": WORD, "PIN: ": "123456"}, seen) as host:
        pin = f"answer me@127.0.0.1, port {host.port} PIN"
        assert names(failure(host.ssh())) == ["password", pin]
        assert works(host.ssh(), Person({"password": WORD, pin: "123456"})) == "\n"


@pytest.mark.usefixtures("nothing_shown", "no_home")
def test_encrypted_secrets_log_in_and_code_is_used_once(tmp_path: Path) -> None:
    settings = Settings.load(tmp_path / "data", environ={"HOME": str(tmp_path)})
    settings.prepare()
    pair, expires = KeyPair.generate(), time.time() + 60
    with (
        contextlib.closing(open_store(settings)) as store,
        asker([["Password:", "PIN:"]], {"Password:": WORD, "PIN:": "123456"}, []) as host,
    ):
        pin = f"answer me@127.0.0.1, port {host.port} PIN"
        box = seal(pair.public, {"password": WORD, pin: "123456"}, "job:abc", expires)
        store.credentials.put("job:abc", "here", pair.key_id, box, expires)
        given = SealedSecrets(store, ("job:abc", "target:far"), pair)
        assert works(host.ssh(), given) == "\n"
        assert names(failure(host.ssh(), given)) == ["password", pin]


@pytest.mark.usefixtures("nothing_shown", "no_home")
def test_each_host_on_the_way_has_its_own_password(far_host: Sshd, make_host: Callable[..., Sshd]) -> None:
    jump = make_host(account=Account(name="other", password=True), authorized=[])
    last = make_host(account=Account(password=True), authorized=[])
    ssh = last.ssh(
        key_file="", password=True, jump=(f"other@{jump.host}:{jump.port}",), host_keys=(jump.known, last.known)
    )
    at_jump = f"password other@{jump.host}, port {jump.port}"
    assert names(failure(ssh)) == [at_jump]
    error = failure(ssh, Person({at_jump: WORD}))
    # All that the next try will need, and words on what is missing now.
    assert names(error) == [at_jump, "password"] and str(last.port) in error.message
    assert works(ssh, Person({at_jump: WORD, "password": WORD}))


@pytest.mark.usefixtures("no_home")
def test_prompt_pauses_login_timeout(make_host: Callable[..., Sshd]) -> None:
    host = make_host(account=Account(password=True), authorized=[])

    def slow(prompt: Prompt) -> str:
        time.sleep(1.5)
        return WORD

    assert works(host.ssh(key_file="", password=True, connect_timeout_s=1.0), slow)


@pytest.mark.usefixtures("no_home")
def test_failing_provider_is_reported(make_host: Callable[..., Sshd]) -> None:
    host = make_host(account=Account(password=True), authorized=[])

    def broken(prompt: Prompt) -> str:
        raise Refused("The catalogue is gone.")

    assert failure(host.ssh(key_file="", password=True), broken).message == "The catalogue is gone."


# ~/.ssh/config


def test_the_configuration_of_the_user_is_honoured(
    far_host: Sshd, make_host: Callable[..., Sshd], no_home: Path, tmp_path: Path
) -> None:
    jump = make_host(host_key="host2")
    (tmp_path / "known hosts").write_text(f"{far_host.known}\n{jump.known}\n")
    more = no_home / ".ssh" / "more"
    more.mkdir()
    (more / "hosts").write_text(
        f"""
        Host cluster
            HostName 127.0.0.1
            Port={far_host.port}
            User {far_host.user}
            IdentityFile "{key()}"
            UserKnownHostsFile "{tmp_path}/known hosts"
            ProxyJump gate
            ConnectTimeout 7
        Host gate
            HostName 127.0.0.1
            Port {jump.port}
            IdentityFile {tmp_path}/none
            IdentityFile {key()}
            UserKnownHostsFile ~/nothing "{tmp_path}/known hosts"
        """
    )
    (no_home / ".ssh" / "config").write_text("Include more/*\nHost *\n    IdentitiesOnly yes\n    UnknownWord x\n")
    through = works(alias("cluster")).split()
    assert through[3] == str(far_host.port)
    jumped = jump.log()
    assert "Accepted publickey" in jumped
    # What the target says counts more, and a target that does not want the file does not get it.
    assert works(alias("cluster", jump=(f"127.0.0.1:{jump.port}",), key_file=str(key()), host_keys=(jump.known,)))
    error = failure(alias("cluster", config=False))
    assert "cluster" in error.message and "cannot be resolved here" in error.message
    error = failure(alias("cluster", port=1))
    assert "cluster, port 1 (127.0.0.1)" in error.message


def alias(host: str, **changes: Any) -> Ssh:
    """A host of which only ~/.ssh/config knows more."""
    return replace(Ssh(host, agent=False), **changes)


def test_unreadable_or_circular_configuration(no_home: Path) -> None:
    config = no_home / ".ssh" / "config"
    config.write_text('Host *\n  Port "unclosed\n')
    error = failure(alias("somewhere"))
    assert type(error) is Refused and "line 2" in error.message
    config.write_text("Host a\n  ProxyJump b\nHost b\n  ProxyJump a\n")
    error = failure(alias("a"))
    assert type(error) is Refused and "cycle" in error.message


def test_a_proxy_command_leads_there(far_host: Sshd, no_home: Path) -> None:
    script = no_home / "connect"
    script.write_text(
        "#!/usr/bin/env python3\nimport os, select, socket, sys\n"
        "s = socket.create_connection((sys.argv[1], int(sys.argv[2])))\n"
        "while True:\n"
        "    for ready in select.select([s, 0], [], [])[0]:\n"
        "        data = s.recv(65536) if ready is s else os.read(0, 65536)\n"
        "        if not data: sys.exit()\n"
        "        s.sendall(data) if ready == 0 else os.write(1, data)\n"
    )
    script.chmod(0o700)
    (no_home / ".ssh" / "config").write_text(f"Host *\n ProxyCommand {script} %h %p\n")
    assert works(far_host.ssh(config=True))
    for command, said in (("/no/such/program %h %p", "no such file"), ("ls /no-such-gate", "/no-such-gate")):
        (no_home / ".ssh" / "config").write_text(f"Host *\n ProxyCommand {command}\n")
        error = failure(far_host.ssh(config=True))
        assert "ProxyCommand" in error.message and said in error.message


def test_no_environment_is_sent(make_host: Callable[..., Sshd], no_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERFLOOM_TOKEN", "tell nobody")
    monkeypatch.setenv("LC_TEST", "tell nobody")
    (no_home / ".ssh" / "config").write_text("Host *\n SendEnv *\n SetEnv OWN=value\n")
    with (
        sshd(options=["AcceptEnv *"]) as host,
        transports.open_transport(host.target(ssh=host.ssh(config=True))) as there,
    ):
        shown = there.run("env").text
    assert "OWN=value" in shown and "tell nobody" not in shown
    transports.close_all()
