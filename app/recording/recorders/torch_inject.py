"""Records PyTorch in an unmodified program. Copied to the job's directory as sitecustomize.py.

Python imports a module of that name when it starts. This one waits until the program imports torch, counts its steps,
and records some with torch.profiler. It needs Python 3.7 and torch 1.13; after any error, the program continues.
docs/reference/recorder-pytorch.md defines steps, the recorded processes and all variables. Steps are detected at the
end of the first one: it is never recorded, and what was recorded until then is discarded.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

NAME, PREFIX, CLAIM, RANK_VARIABLES = "_perfloom_torch", "PERFLOOM_TORCH_", "PERFLOOM_TORCH_TAKEN", "PERFLOOM_RANKS"
STEPS, WHOLE = "1,1,3,1", "whole"
OPTIONS = {"MEMORY": "profile_memory", "SHAPES": "record_shapes", "STACKS": "with_stack", "MODULES": "with_modules"}
"""Options of torch.profiler.profile by the suffix of their variables."""
WHOLE_S = {False: 30.0, True: 10.0}
"""Maximum seconds of a recording of the whole run; with stacks (True) it contains every Python call."""
MAX_SPANS, MAX_MESSAGES = 100, 5
MAX_BATCHES_BEFORE_STEP = 100  # before the first step of an existing optimizer; then batches count as steps
MAX_STEPS_OF_OTHERS = 20
"""An optimizer or DataLoader that makes more steps than this while the step source makes none becomes the source."""
GROUP_END_S = 0.2  # for the threads of torch.distributed to finish before they are destroyed
OPTIMIZER, BATCH = "optimizer step", "batch"
NOTHING: Any = None
OPERATORS = (b'"cpu_op"', b'"kernel"', b'"Operator"')  # categories in a trace with operators
DEVICES = ("/dev/nvidiactl", "/dev/dxg", "/dev/kfd")
RANKS = ("RANK", *os.environ.get(RANK_VARIABLES, "").split(), "LOCAL_RANK")
"""Variables with the rank of a process, also those of MPI launchers, by RANK_VARIABLES. The first set counts."""


def parse_steps(text: str) -> tuple[int, ...] | None:
    """(wait, warmup, active, repeat) of a text; None for "whole". Raises ValueError."""
    if text.strip().lower() == WHOLE:
        return None
    words = [int(word) for word in text.split(",")]
    wait, warmup, active, repeat = words if len(words) == 4 else (*words, 1)
    if not (0 <= wait < 10**9 and 0 <= warmup < 10**6 and 0 < active < 10**6 and 0 < repeat <= MAX_SPANS):
        raise ValueError(text)
    return max(1, wait), warmup, active, repeat


class TorchRecorder:
    """Records a process that has imported torch. In a forked child, call `after_fork` first."""

    def __init__(self, torch: Any, out: str) -> None:
        self.torch, self.out, self.pid = torch, out, os.getpid()
        self.host = "".join(sign if sign.isalnum() and ord(sign) < 128 else "-" for sign in os.uname().nodename)[:60]
        self.options = {option: os.environ.get(PREFIX + name) == "1" for name, option in OPTIONS.items()}
        self.steps = parse_steps(STEPS)
        self.unit, self.done = "", 0  # the kind of step, "" until detected, and the number of completed steps
        self.source, self.kind = NOTHING, ""  # a reference to the object whose steps count, and its class
        self.others = self.optimizers = self.batches = self.depth = 0
        self.prof = self.timer = self.call = self.hook = NOTHING
        self.whole, self.seconds = False, 0.0  # whether the whole run is recorded, and the time limit
        self.owner = 0  # the id of the profiler's thread
        self.reason = ""  # why the recording is incomplete
        self.saved: dict[str, str] = {}  # the kind of step by file
        self.off = self.child = self.used = False
        self.busy = self.signal = self.words = 0

    def attach(self) -> None:
        """Install hooks for steps, batches, the first call of a module, other profilers, forks and the end."""
        import atexit
        import warnings

        torch = self.torch
        os.makedirs(self.out, exist_ok=True)
        try:
            self.steps = parse_steps(os.environ.get(PREFIX + "STEPS") or STEPS)
        except ValueError:
            self.report(f"{PREFIX}STEPS is not valid. Using {STEPS}.")
        process: Any = sys.modules.get("multiprocessing.process")
        self.child = process is not None and process.current_process().name != "MainProcess"
        optimizers = torch.optim.Optimizer
        name = "_patch_step_function" if hasattr(optimizers, "_patch_step_function") else "_hook_for_profile"
        setattr(optimizers, name, self.wrap(getattr(optimizers, name), after=self.on_optimizer))
        for place in ("amp", "cuda.amp"):
            scaler = resolve_attribute(torch, place + ".GradScaler")
            if scaler is not None and "step" in vars(scaler):
                scaler.step = self.wrap(scaler.step, self.before_step, self.on_step, 1)
        __import__("torch.utils.data")
        batches = torch.utils.data.dataloader._BaseDataLoaderIter
        batches.__next__ = self.wrap(batches.__next__, before=self.on_batch)
        profiler = torch.autograd.profiler.profile
        profiler.__init__ = self.wrap(profiler.__init__, before=self.on_other_profiler)
        # The warning is about the hook below, which is removed after the first call.
        warnings.filterwarnings("ignore", message=".*global hooks on modules")
        self.hook = torch.nn.modules.module.register_module_forward_pre_hook(lambda *_: self.run_safely(self.on_use))
        if torch.distributed.is_available():
            destroy = torch.distributed.destroy_process_group
            torch.distributed.destroy_process_group = self.wrap(destroy, before=self.on_group_end)
        atexit.register(self.at_end)
        os._exit = self.wrap(os._exit, before=lambda *_: self.at_end())
        os.register_at_fork(after_in_child=self.after_fork)
        built = resolve_attribute(torch, "version.cuda") or resolve_attribute(torch, "version.hip")
        if built and any(map(os.path.exists, DEVICES)):
            # Before the program initializes a device, it may still select visible devices, and fork.
            torch.cuda._lazy_init = self.wrap(torch.cuda._lazy_init, after=self.on_use)
        elif self.steps is None or not self.options["with_stack"]:
            # With stacks, the recording would contain every import.
            self.begin_whole()

    def wrap(self, call: Any, before: Any = None, after: Any = None, place: int = 0) -> Any:
        """A wrapper that calls `before` and `after` with one of the arguments. Stacks show the name of the wrapper."""
        import functools

        compiling = resolve_attribute(self.torch, "compiler.is_compiling") or bool

        @functools.wraps(call)
        def perfloom_recorder(*arguments: Any, **named: Any) -> Any:
            # Compiled code must not contain the hooks.
            if compiling():
                return call(*arguments, **named)
            self.run_safely(before, *arguments[place : place + 1])
            try:
                return call(*arguments, **named)
            finally:
                self.run_safely(after, *arguments[place : place + 1])

        setattr(perfloom_recorder, NAME, True)
        return perfloom_recorder

    def run_safely(self, do: Callable[..., object] | None, *arguments: Any) -> None:
        """Call `do` so that errors do not affect the program. After an error, recording stops."""
        if do is None or os.getpid() != self.pid or (self.off and do != self.on_group_end):
            return
        try:
            do(*arguments)
        except Exception as error:
            self.off = True
            self.report(f"The PyTorch recording stopped: {type(error).__name__}: {error}")
            try:
                self.finish(drop=True)
            except Exception:
                pass

    def on_optimizer(self, optimizer: Any) -> None:
        """An optimizer was created. torch has just wrapped the step function of its class."""
        self.optimizers += 1
        kind = type(optimizer)
        if not getattr(kind.step, NAME, False):
            kind.step = self.wrap(kind.step, self.before_step, self.on_step)

    def on_use(self, *_: Any) -> None:
        """A module is called for the first time, or a device was initialized."""
        self.hook.remove()
        if not self.child:
            self.use()
            self.begin_whole()

    def on_group_end(self, *_: Any) -> None:
        """A process group is destroyed. Its threads may still need the GIL; ending them deadlocks (2.13 with gloo)."""
        import time

        time.sleep(GROUP_END_S)

    def on_other_profiler(self, *_: Any) -> None:
        """The program uses its own profiler; only one can be active at a time."""
        if not self.busy:
            self.reason = "From then on, the program used its own profiler."
            self.finish()
            self.off = True
            self.report("The program uses its own PyTorch profiler. From then on, Perfloom does not record.")

    def before_step(self, optimizer: Any) -> None:
        """A step of an optimizer starts."""
        self.depth += 1

    def on_step(self, optimizer: Any) -> None:
        """A step of an optimizer ended, or a gradient scaler has skipped it."""
        self.depth -= 1
        if not self.depth and self.is_step_source(optimizer, OPTIMIZER):
            self.on_step_end(OPTIMIZER)

    def on_batch(self, batches: Any) -> None:
        """The next batch is requested: waiting for it is part of its step."""
        self.batches += 1
        waits = self.optimizers and self.batches < MAX_BATCHES_BEFORE_STEP
        if not self.child and not waits and self.unit != OPTIMIZER and self.is_step_source(batches, BATCH):
            self.use()
            if self.batches > 1:
                self.on_step_end(BATCH)

    def is_step_source(self, one: Any, unit: str) -> bool:
        """Whether the steps of this object count, in this thread."""
        import threading
        import weakref

        if self.owner not in (0, threading.get_ident()):
            return False
        known = self.source() if self.source is not None else None
        self.others = 0 if known is one else self.others + 1
        free = known is None or unit != self.unit or self.others > MAX_STEPS_OF_OTHERS
        # Autograd's threads are not Python threads, and cannot run a profiler.
        if free and any(each.ident == threading.get_ident() for each in threading.enumerate()):
            known, self.source, self.kind = one, weakref.ref(one), type(one).__name__
        return known is one

    def use(self) -> None:
        """The program has started to use torch: processes that it starts from now on are its children."""
        if not self.used:
            self.used = True
            os.environ[CLAIM] = launcher_role()

    def after_fork(self) -> None:
        """Called in a forked child. It may be a rank if its parent has not used torch; its profiler is the parent's."""
        recording, self.pid, self.child, self.owner = self.prof is not None, os.getpid(), True, 0
        self.off = self.off or self.used or recording
        if recording:
            sys.setprofile(None)
            (resolve_attribute(self.torch, "autograd._enable_record_function") or bool)(False)

    def on_step_end(self, unit: str) -> None:
        """A step ended."""
        self.use()
        if self.steps is None:
            return
        if unit != self.unit:
            # The recording of the whole run, or of another kind of step, is obsolete.
            self.finish(drop=True)
            self.unit, self.done = unit, 0
        self.done += 1
        wait, warmup, active, repeat = self.steps
        if self.prof is not None:
            if self.prof.current_action.name == "RECORD_AND_SAVE":
                self.add_metadata()
            self.run_exclusively(self.prof.step)
        elif self.done == wait:
            self.begin_steps()
        if self.done >= (wait + warmup + active) * repeat:
            self.finish()
            # After batches, such as of a validation, steps of an optimizer may still follow.
            self.off = unit == OPTIMIZER

    def begin_whole(self) -> None:
        """Record from now on, until steps are detected or the time limit is reached, because the recording is in
        memory."""
        import ctypes
        import threading

        main = threading.current_thread() is threading.main_thread()
        if self.prof is None and main and not (self.unit or self.child or self.saved):
            self.whole = True
            self.seconds = float(os.environ.get(PREFIX + "SECONDS") or WHOLE_S[self.options["with_stack"]])
            self.begin(self.torch.profiler.profile(activities=self.activities(), **self.options))
            # Only the thread that started a profiler can stop it.
            self.call = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(self.at_limit)
            self.timer = threading.Timer(self.seconds, ctypes.pythonapi.Py_AddPendingCall, (self.call, None))
            self.timer.daemon = True
            self.timer.start()

    def at_limit(self, _: Any) -> int:
        """The time limit of the whole run is reached."""
        if self.whole:
            self.reason = f"The recording ended after {self.seconds:g} seconds, the limit without steps."
            self.run_safely(self.finish)
        return 0

    def begin_steps(self) -> None:
        """Record with the schedule, whose first steps are completed."""
        wait, warmup, active, repeat = self.steps or ()
        schedule, profile = self.torch.profiler.schedule, self.torch.profiler.profile
        plan = self.run_exclusively(lambda: schedule(wait=wait, warmup=warmup, active=active, repeat=repeat))
        prof = profile(activities=self.activities(), schedule=plan, on_trace_ready=self.save, **self.options)
        # The profiler's step numbers are those of the program.
        prof.step_num = self.done
        prof.current_action = prof._prev_schedule_action = plan(self.done)
        self.begin(prof)

    def begin(self, prof: Any) -> None:
        """Start a profiler."""
        import signal
        import threading

        self.prof, self.owner = prof, threading.get_ident()
        replace_handler(signal.SIG_DFL, self.at_sigterm)
        self.run_exclusively(prof.start)

    def activities(self) -> list[Any]:
        """The activities that can be recorded without initializing a device that the program has not initialized."""
        kinds = self.torch.profiler.ProfilerActivity
        ready = [x for x in ("CUDA", "XPU") if (resolve_attribute(self.torch, f"{x.lower()}.is_initialized") or bool)()]
        return [kinds.CPU, *(getattr(kinds, name) for name in ready)]

    def run_exclusively(self, do: Callable[[], Any]) -> Any:
        """Call `do`, which uses the profiler, without warnings. SIGTERM is handled afterwards."""
        import warnings

        self.busy += 1
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return do()
        finally:
            self.busy -= 1
            if self.signal and not self.busy:
                self.at_sigterm(self.signal)

    def finish(self, *, drop: bool = False) -> None:
        """Stop the profiler, and save its recording unless `drop`."""
        import signal

        prof, whole = self.prof, self.whole
        if prof is None:
            return
        self.add_metadata()
        self.prof, self.whole = None, False
        if whole:
            self.timer.cancel()
        if whole or drop:
            prof.on_trace_ready = None if drop else self.save
        self.run_exclusively(prof.stop)
        replace_handler(self.at_sigterm, signal.SIG_DFL)

    def at_end(self) -> None:
        """The process ends."""
        if os.getpid() == self.pid and not self.busy:
            self.run_safely(self.save_rest)
            self.off = True

    def save_rest(self) -> None:
        """Save the recording when the process ends, or report why there is none."""
        self.reason = self.reason or ("The program ended before the schedule." if self.unit else "")
        self.finish()
        if in_group(self.torch):
            self.on_group_end()
        if self.saved or not self.used:
            return
        if self.unit and self.steps:
            self.report(
                f"Nothing was recorded: the program ended after {self.done} steps ({self.unit}), but the schedule "
                f"records from step {sum(self.steps[:2]) + 1} on. Choose a shorter schedule, such as 1,0,1, or “whole”."
            )
        elif not self.child:
            self.report("Nothing was recorded: no PyTorch operator ran in this process.")

    def at_sigterm(self, number: int, *_: Any) -> None:
        """Save the recording before SIGTERM ends the process."""
        import signal

        if self.busy and os.getpid() == self.pid:
            self.signal = number
            return
        self.reason = "The program received a request to end."
        self.at_end()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    def add_metadata(self) -> None:
        """Write to the trace what its steps are."""
        import json

        facts = {
            "step": self.unit or "whole run",
            "counted": self.kind if self.unit else None,
            "schedule": ",".join(map(str, self.steps)) if self.unit and self.steps else WHOLE,
            "reason": self.reason or None,
            "rank": rank_of(self.torch),
            "steps_over": self.done if self.unit else None,
        }
        try:
            self.prof.add_metadata_json("perfloom", json.dumps({k: v for k, v in facts.items() if v is not None}))
        except Exception:
            pass  # Some builds do not support metadata.

    def save(self, prof: Any) -> None:
        """Write the recording of a profiler to a unique file, unless no operator ran."""
        rank = rank_of(self.torch)
        name = f"{'process' if rank is None else f'rank{rank}'}-{self.host}-{os.getpid()}-{len(self.saved)}"
        plain = os.path.join(self.out, f".{name}.json")
        try:
            prof.export_chrome_trace(plain)
            if compress_trace(plain, plain + ".gz"):
                for other in [path for path, unit in self.saved.items() if unit != self.unit]:
                    os.remove(other)
                    del self.saved[other]
                final = os.path.join(self.out, f"{name}.pt.trace.json.gz")
                os.rename(plain + ".gz", final)
                self.saved[final] = self.unit
        except Exception as error:
            self.report(f"A trace could not be written to {self.out}: {type(error).__name__}: {error}")
        finally:
            for path in filter(os.path.exists, (plain, plain + ".gz")):
                os.remove(path)

    def report(self, text: str) -> None:
        """Print a message for the user to standard error and to a file for the job; at most MAX_MESSAGES."""
        import contextlib

        self.words, text = self.words + 1, " ".join(text.split())
        if self.words <= MAX_MESSAGES:
            with contextlib.suppress(Exception):
                print("perfloom:", text, file=sys.stderr, flush=True)
            with contextlib.suppress(Exception), open(f"{self.out}/{self.host}-{os.getpid()}.note", "ab") as file:
                file.write(f"{text}\n".encode())


def resolve_attribute(start: Any, path: str) -> Any:
    """The attribute at a dotted path; None if it does not exist."""
    for name in path.split("."):
        start = getattr(start, name, None)
    return start


def compress_trace(plain: str, target: str) -> bool:
    """Compress a trace. Returns whether it contains operators."""
    import gzip

    found, tail = False, b""
    with open(plain, "rb") as source, gzip.open(target, "wb", 1) as sink:
        for piece in iter(lambda: source.read(1 << 20), b""):
            found = found or any(word in tail + piece for word in OPERATORS)
            tail = piece[-16:]
            sink.write(piece)
    return found


def in_group(torch: Any) -> bool:
    """Whether this process has initialized torch.distributed."""
    return bool(torch.distributed.is_available() and torch.distributed.is_initialized())


def rank_of(torch: Any) -> int | None:
    """The rank of this process, if it is one of several."""
    if in_group(torch):
        return int(torch.distributed.get_rank())
    return next((int(os.environ[name]) for name in RANKS if os.environ.get(name, "").isdigit()), None)


def replace_handler(current: Any, new: Any) -> None:
    """Replace the handler of SIGTERM, if it is `current`."""
    import signal
    import threading

    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) == current:
        signal.signal(signal.SIGTERM, new)


def launcher_role() -> str:
    """The rank variables that the launcher has set for this process. A child inherits those of its parent."""
    return "|".join(os.environ.get(name, "") for name in (*RANKS, "TORCHELASTIC_RESTART_COUNT"))


class TorchFinder:
    """A finder on sys.meta_path, until torch is imported."""

    def __init__(self, out: str) -> None:
        self.out, self.asks = out, False

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """The spec of torch from the other finders, with a hook after it was loaded."""
        if name != "torch" or self.asks:
            return None
        import importlib.util

        self.asks = True
        try:
            spec: Any = importlib.util.find_spec(name)
        finally:
            self.asks = False
        load = resolve_attribute(spec, "loader.exec_module")
        if load is not None:
            spec.loader.exec_module = lambda module: self.loaded(module, spec.loader, load)
        return spec

    def loaded(self, module: Any, loader: Any, load: Callable[[Any], None]) -> None:
        """Load torch, and attach a recorder."""
        del loader.exec_module
        load(module)
        sys.meta_path[:] = [finder for finder in sys.meta_path if finder is not self]
        watch = TorchRecorder(module, self.out)
        watch.run_safely(watch.attach)


def main() -> None:
    """Install the finder, and import the sitecustomize.py that this file hides, if there is one."""
    out = os.environ.get(PREFIX + "OUT")
    if out and os.environ.get(CLAIM) != launcher_role():
        sys.meta_path.insert(0, TorchFinder(os.path.abspath(out)))
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != here]
    ours = sys.modules[NAME] = sys.modules.pop("sitecustomize")
    globals()["__name__"] = NAME
    try:
        __import__("sitecustomize")
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
        sys.modules["sitecustomize"] = ours


if __name__ == "sitecustomize":
    main()
