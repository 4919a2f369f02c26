"""A simulated PyTorch for tests that need only its hooks: operators, steps, batches and a profiler of some lines.

OLD=1 in the environment: without what versions before 2.0 lack. CUDA=1: built for devices.
"""

import functools
import json
import os
import sys
import time
import types
from enum import Enum

OLD = os.environ.get("OLD") == "1"
active: list["Kineto"] = []
compiling = False
set_up = False


def module(name: str, **holds: object) -> types.ModuleType:
    """A module of this package, reached as an attribute too."""
    made = types.ModuleType(f"torch.{name}")
    made.__dict__.update(holds)
    sys.modules[made.__name__] = made
    parent, _, last = made.__name__.rpartition(".")
    setattr(sys.modules[parent], last, made)
    return made


def event(category: str, name: str) -> dict[str, object]:
    """Something that happens now."""
    now = time.time() * 1e6
    return {"ph": "X", "cat": category, "name": name, "pid": os.getpid(), "tid": os.getpid(), "ts": now, "dur": 1.0}


def op(name: str) -> None:
    """An operator runs."""
    for one in active:
        one.events.append(event("cpu_op", name))


class Kineto:
    """What records, below the profiler."""

    def __init__(self, **options: object) -> None:
        self.options = options
        self.events: list[dict[str, object]] = []
        self.said: dict[str, object] = {}


class Action(Enum):
    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


def schedule(*, wait: int, warmup: int, active: int, repeat: int = 0):
    """As torch.profiler.schedule."""

    def plan(step: int) -> Action:
        length = wait + warmup + active
        if repeat and step >= repeat * length:
            return Action.NONE
        at = step % length
        if at < wait + warmup:
            return Action.NONE if at < wait else Action.WARMUP
        return Action.RECORD if at < length - 1 else Action.RECORD_AND_SAVE

    return plan


class Profile:
    """As torch.profiler.profile, in what is used of it."""

    def __init__(self, *, activities=(), schedule=None, on_trace_ready=None, **options: object) -> None:
        self.activities, self.options = list(activities), options
        self.schedule, self.on_trace_ready = schedule, on_trace_ready
        self.step_num = 0
        self.current_action = schedule(0) if schedule else Action.RECORD
        self.profiler = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        if os.environ.get("FAILS") == "start":
            raise RuntimeError("this build has no profiler")
        self._go_on(Action.NONE, self.current_action)

    def step(self) -> None:
        before = self.current_action
        self.step_num += 1
        self.current_action = self.schedule(self.step_num)
        self._go_on(before, self.current_action)

    def stop(self) -> None:
        self._go_on(self.current_action, Action.NONE, end=True)

    def _go_on(self, before: Action, after: Action, end: bool = False) -> None:
        recorded = before in (Action.RECORD, Action.RECORD_AND_SAVE)
        if recorded and (end or before is Action.RECORD_AND_SAVE):
            active.remove(self.profiler)
            if self.on_trace_ready:
                self.on_trace_ready(self)
            recorded = False
        if after in (Action.RECORD, Action.RECORD_AND_SAVE) and not end:
            if not recorded:
                self.profiler = autograd.profiler.profile(**self.options)
                active.append(self.profiler)
            if self.schedule:
                self.profiler.events.append(event("user_annotation", f"ProfilerStep#{self.step_num}"))

    def add_metadata_json(self, key: str, value: str) -> None:
        if self.profiler is not None:
            self.profiler.said[key] = json.loads(value)

    def export_chrome_trace(self, path: str) -> None:
        said = self.profiler.said | {"activities": self.activities, "options": self.options}
        with open(path, "w") as file:
            json.dump({"schemaVersion": 1, **said, "traceEvents": self.profiler.events}, file)


class Optimizer:
    """As torch.optim.Optimizer: a subclass's step is wrapped when its first object is made."""

    def __init__(self) -> None:
        self._hook_for_profile() if OLD else self._patch_step_function()

    def _patch(self) -> None:
        kind = type(self)
        if not getattr(kind.step, "hooked", False):
            step = kind.step

            @functools.wraps(step)
            def hooked(self, *arguments):
                op("Optimizer.step")
                return step(self, *arguments)

            hooked.hooked = True
            kind.step = hooked

    def step(self, closure=None) -> None:
        op("step")


setattr(Optimizer, "_hook_for_profile" if OLD else "_patch_step_function", Optimizer._patch)


class SGD(Optimizer):
    def step(self, closure=None) -> None:
        op("sgd")


class Adam(Optimizer):
    def step(self, closure=None) -> None:
        op("adam")


class GradScaler:
    """skips: whether the next step is left out."""

    skips = False

    def step(self, optimizer: Optimizer) -> None:
        if not self.skips:
            optimizer.step()


class Batches:
    def __init__(self, count: int) -> None:
        self.left = count

    def __iter__(self):
        return self

    def __next__(self):
        if not self.left:
            raise StopIteration
        self.left -= 1
        op("batch")
        return self.left


class DataLoader:
    def __init__(self, count: int) -> None:
        self.count = count

    def __iter__(self):
        return data._BaseDataLoaderIter(self.count)


hooks: list[object] = []


class Handle:
    def __init__(self, hook: object) -> None:
        self.hook = hook
        hooks.append(hook)

    def remove(self) -> None:
        hooks.remove(self.hook)


class Module:
    def __call__(self, *arguments):
        for hook in list(hooks):
            hook(self, arguments)
        op("linear")


def _lazy_init() -> None:
    global set_up
    set_up = True


module("version", cuda="12.4" if os.environ.get("CUDA") == "1" else None, hip=None)
module("autograd", _enable_record_function=lambda enable: None)
module("autograd.profiler", profile=Kineto)
module("profiler", profile=Profile, schedule=schedule, ProfilerActivity=types.SimpleNamespace(CPU="cpu", CUDA="cuda"))
module("optim", Optimizer=Optimizer, SGD=SGD, Adam=Adam)
module("utils")
data = module("utils.data.dataloader".rpartition(".")[0], DataLoader=DataLoader)
data = module("utils.data.dataloader", _BaseDataLoaderIter=Batches)
module("nn", Module=Module)
module("nn.modules")
module("nn.modules.module", register_module_forward_pre_hook=Handle)
module("distributed", is_available=lambda: False)
module("cuda", _lazy_init=_lazy_init, is_initialized=lambda: set_up)
if not OLD:
    module("amp", GradScaler=GradScaler)
    module("compiler", is_compiling=lambda: compiling)
autograd = sys.modules["torch.autograd"]
