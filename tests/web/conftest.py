"""The web application over a real store, and profiles to put into it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import pytest
from flask import Flask
from flask.testing import FlaskClient
from jinja2.bccache import Bucket, BytecodeCache

from perfloom.config import Settings
from perfloom.domain.builder import ProfileBuilder
from perfloom.domain.profile import Meta, Profile
from perfloom.domain.tables import FrameKind
from perfloom.store import Store
from perfloom.store.files import columns
from perfloom.web.app import create_app

TOKEN = "a-token-of-the-tests-0123456789-abc"
EXPRESSION, EVALUATED = "{{ 7919*7907 }}", "62615533"
"""An expression of a template, and its value, which no page has otherwise."""
HOSTILE = (
    "<script>window.pwned=1</script>",
    '"><img src=x onerror=window.pwned=2>',
    "' autofocus onfocus=window.pwned=3 x='",
    "../../../../etc/passwd",
    '=HYPERLINK("http://evil.example","x")',
    EXPRESSION + "{% raw %}",
    "\u202eevil\u202c",
    "</style></title></textarea><svg/onload=window.pwned=4>",
    "a" * 10_000,
    "nul\x01\x1b[31m",
)
"""Names that a symbol, thread, event, command or file may have."""

ORDINARY, EVIL = "ordinary0000", "evil00000000"


def profile(
    names: Sequence[str] = (), *, called: Sequence[str] = (), functions: int = 40, samples: int = 600, seed: int = 1
) -> Profile:
    """Threads, two events and a tree of functions; `names` stand wherever a name can. called: the first functions."""
    chance = random.Random(seed)
    builder = ProfileBuilder("perf script text")
    called = list(called or names) or ["main", "parse", "multiply", "do_syscall_64"]
    builder.add_run(called[0], names[-1] if names else "node17")
    clock = builder.intern_event("cpu-clock", "ns", sampling="frequency", rate=199.0)
    faults = builder.intern_event(names[0] if names else "page-faults", "count", sampling="period", rate=1.0)
    modules = ["/usr/lib/libc.so.6", "[kernel.kallsyms]", *names]
    frames = []
    for number in range(functions):
        module = modules[number % len(modules)]
        name = called[number] if number < len(called) else f"function_{number}"
        kind = FrameKind.KERNEL if module.startswith("[") else FrameKind.USER
        frames.append(builder.intern_frame(builder.intern_function(name, module), kind=kind))
    threads = []
    for number in range(3):
        thread = builder.intern_thread(pid=100, tid=100 + number)
        builder.set_thread_name(thread, 0, names[number] if names else f"worker-{number}")
        threads.append(thread)
    for number in range(samples):
        stack = builder.intern_stack([frames[0], *(chance.choice(frames) for _ in range(chance.randrange(1, 8)))])
        event, weight = (clock, 5_025_125) if number % 4 else (faults, 3)
        builder.add_sample(10**9 + number * 10**6, threads[number % 3], event, stack, weight, cpu=number % 2)
    builder.add_loss(names[0] if names else "sample without a stack", names[1] if names else "line 12", 3)
    meta = Meta(
        "perf script text",
        command=" ".join(names) or "python3 -m workload",
        complete=not names,
        reasons=tuple(names[:2]),
        facts={name: name for name in names} or {"hostname": "node17"},
    )
    return builder.finish(meta)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.load(tmp_path / "data", environ={}, token=TOKEN, runtime=tmp_path / "run")


class Compiled(BytecodeCache):
    """What templates were compiled to, for the next application: each test has its own."""

    kept: ClassVar[dict[str, bytes]] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        if bucket.key in self.kept:
            bucket.bytecode_from_string(self.kept[bucket.key])

    def dump_bytecode(self, bucket: Bucket) -> None:
        self.kept[bucket.key] = bucket.bytecode_to_string()


@pytest.fixture
def app(settings: Settings) -> Iterator[Flask]:
    made = create_app(settings)
    made.jinja_env.bytecode_cache = Compiled()
    yield made
    made.extensions["perfloom"].queue.close()
    made.extensions["perfloom"].store.close()


@pytest.fixture
def store(app: Flask) -> Store:
    found: Store = app.extensions["perfloom"].store
    return found


@pytest.fixture
def stored(store: Store, tmp_path: Path) -> Callable[..., str]:
    """Store a profile as a result and give its id."""

    def put(
        made: Profile, id: str = ORDINARY, *, name: str = "an ordinary result", originals: Sequence[Path] = ()
    ) -> str:
        staged = store.results.stage(id)
        columns.write(made, staged)
        store.results.publish(id, staged, name=name, originals=originals)
        return id

    return put


@pytest.fixture
def ordinary(stored: Callable[..., str]) -> str:
    """The id of a stored result with nothing special about it."""
    return stored(profile())


@pytest.fixture
def evil(stored: Callable[..., str], store: Store, tmp_path: Path) -> str:
    """The id of a stored result with every name hostile."""
    original = tmp_path / "<img src=x onerror=window.pwned=5>"
    original.write_text("whatever")
    id = stored(profile(HOSTILE), EVIL, name=HOSTILE[0] + HOSTILE[1], originals=[original])
    store.results.set_tags(id, HOSTILE[:3])
    store.results.set_notes(id, "\n".join(HOSTILE))
    return id


class Browser:
    """A signed-in test client that sends what our pages send with a change."""

    def __init__(self, client: FlaskClient) -> None:
        self.client = client
        assert client.get(f"/?token={TOKEN}").status_code == 303

    @cached_property
    def csrf(self) -> str:
        return self.page("/").split('name="csrf-token" content="')[1].split('"')[0]

    def page(self, path: str, status: int = 200) -> str:
        response = self.client.get(path)
        assert response.status_code == status, (path, response.status_code, response.text[-2000:])
        return response.text

    def post(self, path: str, **fields: str):  # type: ignore[no-untyped-def]
        return self.client.post(path, data={"csrf": self.csrf} | fields, headers={"Origin": "http://localhost"})


@pytest.fixture
def client(app: Flask) -> FlaskClient:
    """A client that has not signed in."""
    return app.test_client()


@pytest.fixture
def browser_client(client: FlaskClient) -> Browser:
    """Somebody who is signed in."""
    return Browser(client)
