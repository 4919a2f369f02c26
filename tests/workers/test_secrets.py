"""Secrets from a page to a worker: encrypted, decrypted only by that worker, and lost when it ends."""

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from perfloom.config import Settings
from perfloom.domain.errors import Prompt
from perfloom.sealing import KeyPair, SealedBoxError, key_id, seal
from perfloom.store import Store, open_store
from perfloom.workers.base import processes
from perfloom.workers.base.facts_probe import host_name
from perfloom.workers.serve import services
from perfloom.workers.targets import secrets

NOW = 1_700_000_000.0
PASSWORD = Prompt("password", "Password of me on far")
CODE = Prompt("answer me@far Code", "Code (me on far)")


@given(some.dictionaries(some.text(max_size=40), some.text(max_size=2000), max_size=4), some.text(max_size=30))
def test_encrypted_secrets_are_decrypted_only_by_their_key_pair(given: dict[str, str], subject: str) -> None:
    pair, other = KeyPair.generate(), KeyPair.generate()
    given = {name: value for name, value in given.items() if _utf8(name + value)}
    if not _utf8(subject):
        return
    box = seal(pair.public, given, subject, NOW + 60)
    assert KeyPair.from_bytes(pair.to_bytes()).open(box, subject, NOW) == given
    for wrong, about in ((other, subject), (pair, subject + "x")):
        with pytest.raises(SealedBoxError):
            wrong.open(box, about, NOW)


def _utf8(text: str) -> bool:
    return not any(0xD800 <= ord(c) < 0xE000 for c in text)


def test_a_box_that_was_touched_anywhere_is_not_opened() -> None:
    pair = KeyPair.generate()
    box = seal(pair.public, {"password": "secret"}, "job:a", NOW + 60)
    for at in range(len(box)):
        touched = bytearray(box)
        touched[at] ^= 1
        with pytest.raises(SealedBoxError):
            pair.open(bytes(touched), "job:a", NOW)
    for length in (0, 1, 40, len(box) - 1):
        with pytest.raises(SealedBoxError):
            pair.open(box[:length], "job:a", NOW)


def test_a_box_is_opened_until_it_expires() -> None:
    pair = KeyPair.generate()
    box = seal(pair.public, {"password": "secret"}, "job:a", NOW + 60)
    assert pair.open(box, "job:a", NOW + 59.9) == {"password": "secret"}
    with pytest.raises(SealedBoxError, match="old"):
        pair.open(box, "job:a", NOW + 60)


def test_repr_hides_secrets() -> None:
    pair = KeyPair.generate()
    box = seal(pair.public, {"password": "tell nobody"}, "job:a", NOW + 60)
    assert b"tell nobody" not in box
    assert pair.to_bytes().hex() not in repr(pair) + str(pair)
    assert repr(pair.to_bytes()) not in repr(pair)
    assert key_id(pair.public) == pair.key_id != KeyPair.generate().key_id
    # The length of a box does not tell a short password from a long one.
    assert len(box) == len(seal(pair.public, {"password": "x" * 200}, "job:a", NOW + 60))


def test_a_public_key_that_is_none_is_refused() -> None:
    for bad in (b"", b"short", b"x" * 33, bytes(32)):
        with pytest.raises(ValueError):
            seal(bad, {}, "job:a", NOW)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    settings = Settings.load(tmp_path / "data", environ={"HOME": str(tmp_path)})
    settings.prepare()
    return open_store(settings)


@pytest.fixture
def pair(store: Store) -> KeyPair:
    pair = KeyPair.generate()
    secrets._key_pair = pair
    yield pair
    secrets._key_pair = None
    store.close()


def keep(store: Store, pair: KeyPair, subject: str, given: dict[str, str], life_s: float = 60.0) -> None:
    expires = time.time() + life_s
    box = seal(pair.public, given, subject, expires)
    store.credentials.put(subject, host_name(), pair.key_id, box, expires)


def test_a_worker_gives_what_was_typed_for_its_job_or_target(store: Store, pair: KeyPair) -> None:
    keep(store, pair, "target:far", {"password": "of the target", CODE.name: "123456"})
    keep(store, pair, "job:abc", {"password": "of the job"})
    assert secrets.secrets_for(store, "far", ["abc"])(PASSWORD) == "of the job"
    assert secrets.secrets_for(store, "far", ["abc"])(CODE) == "123456"
    assert secrets.secrets_for(store, "far", ["another"])(PASSWORD) == "of the target"
    assert secrets.secrets_for(store, "near", ["another"])(PASSWORD) is None


def test_one_time_code_is_deleted_and_others_are_kept(store: Store, pair: KeyPair) -> None:
    keep(store, pair, "job:abc", {"password": "word", CODE.name: "123456"})
    given = secrets.secrets_for(store, "far", ["abc"])
    assert isinstance(given, secrets.SealedSecrets)
    given.invalidate(CODE)
    given.invalidate(Prompt("no such", ""))
    assert (given(PASSWORD), given(CODE)) == ("word", None)


def test_after_a_restart_nothing_can_be_opened_any_more(store: Store, pair: KeyPair) -> None:
    keep(store, pair, "job:abc", {"password": "word"})
    secrets._key_pair = KeyPair.generate()
    assert secrets.secrets_for(store, "far", ["abc"])(PASSWORD) is None
    secrets._key_pair = None
    assert secrets.secrets_for(store, "far", ["abc"])(PASSWORD) is None


def test_a_box_under_a_false_name_is_not_opened(store: Store, pair: KeyPair, caplog: pytest.LogCaptureFixture) -> None:
    expires = time.time() + 60
    box = seal(pair.public, {"password": "word"}, "job:abc", expires)
    store.credentials.put("job:xyz", host_name(), pair.key_id, box, expires)
    assert secrets.secrets_for(store, "far", ["xyz"])(PASSWORD) is None
    assert "were ignored" in caplog.text and "word" not in caplog.text


def test_children_inherit_the_key_and_nothing_else_shows_it(store: Store, tmp_path: Path) -> None:
    handle = secrets.make_key(store)
    try:
        published = store.hosts.get(host_name())
        assert published.key_id == key_id(published.public_key or b"")
        code = (
            "from perfloom.workers.targets import secrets; import os, sys; secrets.take_key(int(sys.argv[1])); "
            "print(secrets._key_pair.key_id, os.path.exists('/proc/self/fd/' + sys.argv[1]))"
        )
        argv = [sys.executable, "-c", code, str(handle)]
        done = subprocess.run(argv, pass_fds=(handle,), capture_output=True, text=True, check=True)
        assert done.stdout.split() == [published.key_id, "False"]
        # A child that is started again finds it as the first one did.
        secrets.take_key(os.dup(handle))
        assert secrets._key_pair is not None and secrets._key_pair.key_id == published.key_id
        secrets._key_pair = None
        settings = Settings.load(tmp_path / "data", environ={"HOME": str(tmp_path)})
        raw = os.pread(handle, 32, 0)
        for child in services.worker_children(settings, key=handle):
            shown = "\0".join([*child.argv, *child.environment, *child.environment.values()])
            assert raw.hex() not in shown and child.descriptors == ((handle,) if "target" in child.name else ())
    finally:
        os.close(handle)
        store.close()


def test_worker_inherits_key_of_its_parent(store: Store, tmp_path: Path) -> None:
    """Through guard and celery_app: a process without the descriptor ends immediately."""
    handle = secrets.make_key(store)
    argv = processes.python_argv("perfloom.workers.celery_app", "target", "1", str(handle))
    try:
        done = subprocess.run(argv, capture_output=True, text=True, env=dict(os.environ, PERFLOOM_DATA=str(tmp_path)))
        assert done.returncode != 0 and "Bad file descriptor" in done.stderr
    finally:
        os.close(handle)
        store.close()


def test_no_prompt_without_terminal() -> None:
    code = "from perfloom.workers.serve import secret_prompts as s; from perfloom.domain.errors import Prompt; print(s.ask_on_terminal(Prompt('a', 'b')))"
    argv = ["setsid", sys.executable, "-c", code]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
    assert done.stdout == "None\n"


def test_terminal_prompt_hides_typed_text() -> None:
    code = (
        "from perfloom.workers.serve import secret_prompts as s; from perfloom.domain.errors import Prompt; "
        "print('got', len(s.ask_on_terminal(Prompt('password', 'Password of me on far')) or ''))"
    )
    terminal, other = os.openpty()
    argv = ["setsid", "--ctty", sys.executable, "-c", code]
    with subprocess.Popen(argv, stdin=other, stdout=other, stderr=other) as process:
        os.close(other)
        shown = b""
        try:
            # Echo is off from before the question until after the answer.
            while b"Password of me on far: " not in shown:
                shown += os.read(terminal, 1000)
            os.write(terminal, b"open sesame\n")
            with contextlib.suppress(OSError):
                while piece := os.read(terminal, 1000):
                    shown += piece
        finally:
            process.kill()
            os.close(terminal)
    assert b"got 11" in shown and b"sesame" not in shown
