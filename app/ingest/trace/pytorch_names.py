"""The meaning of categories and names in PyTorch's profiler: today's, and those of its first versions."""

import re

from ...domain.rank_state import INJECTED_FILE
from ...domain.tables import DeviceWorkKind, FrameKind
from .slices import WORK, SliceType
from .tracks import OTHER_TRACK, STREAM, THREAD

STEP = "ProfilerStep"
MEMORY = "[memory]"
ARGUMENTS = {
    "Input Dims": "shapes",
    "Input dims": "shapes",
    "Input type": "types",
    "Input Strides": "strides",
    "Concrete Inputs": "values",
    "Call stack": "call_stack",
}
"""Arguments of operators that have their own columns in `argument_sets`."""

_KINDS = {
    "cpu_op": "operator",
    "operator": "operator",
    "user_annotation": "annotation",
    "python_function": "python",
    "python": "python",
    "runtime": "runtime",
    "hpu_op": "runtime",
    "overhead": "overhead",
    "kernel": "kernel",
    "concurrent_kernel": "kernel",
    "mtia_ccp_events": "kernel",
    "collective_comm": "kernel",
    "memcpy": "memcpy",
    "gpu_memcpy": "memcpy",
    "memset": "memset",
    "gpu_memset": "memset",
    "gpu_user_annotation": "device_annotation",
    "cuda_profiler_range": "device_annotation",
}
_ON_DEVICE = frozenset({"cuda_sync", "cuda_event", "xpu_sync", "mtia_insight"})
_FRAMES = {
    "operator": FrameKind.OPERATOR,
    "python": FrameKind.PYTHON,
    "module": FrameKind.PYTHON,
    "annotation": FrameKind.ANNOTATION,
    "device_annotation": FrameKind.ANNOTATION,
    "runtime": FrameKind.RUNTIME,
    "overhead": FrameKind.RUNTIME,
    "kernel": FrameKind.GPU_KERNEL,
    "memcpy": FrameKind.GPU_KERNEL,
    "memset": FrameKind.GPU_KERNEL,
}
_OUTER = {"annotation": 0, "device_annotation": 0, "python": 1, "module": 1, "operator": 2, "runtime": 3, "overhead": 4}

_STEP = re.compile(r"ProfilerStep#\d+")
_PLACE = re.compile(r"(.+)\((\d+)\): (.+)", re.DOTALL)
_BUILT_IN = re.compile(r"<built-in (?:method|function) ([^ >]+)[^>]*>")
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_MODULE = ("nn.Module: ", "[pl][module]")
_COMMUNICATION = re.compile(r"(?:^|[^a-z])(?:nccl|rccl|msccl|oneccl|xccl|hccl|ucc_|nvshmem)", re.IGNORECASE)
_COPIES = re.compile(r"mem(cpy|set)\b", re.IGNORECASE)


def is_step(name: str) -> bool:
    """Whether a slice of this name is a step of the profiler's schedule."""
    return _STEP.fullmatch(name) is not None


def get_kind(category: str, name: str) -> str:
    """The kind of the category of a slice with this name."""
    lower = category.lower()
    kind = _KINDS.get(lower)
    if kind is None:
        kind = "runtime" if lower.endswith(("_runtime", "_driver")) else "other"
    if kind == "operator" and is_step(name):
        return "annotation"
    if kind in ("operator", "python", "annotation") and name.startswith(_MODULE):
        return "module"
    if kind == "kernel" and (copy := _COPIES.match(name)):
        return f"mem{copy[1].lower()}"
    return kind


def classify(category: str, name: str) -> SliceType:
    """The meaning of a slice with this category and name."""
    kind = get_kind(category, name)
    lower = category.lower()
    where = THREAD
    if kind in WORK or kind == "device_annotation" or lower in _ON_DEVICE:
        where = STREAM
    elif lower == "trace":
        where = OTHER_TRACK
    place = built_in = label = None
    if is_step(name):
        label = STEP
    elif kind == "python":
        place, built_in = _PLACE.fullmatch(name), _BUILT_IN.fullmatch(name)
        # The same function of another object, or in another process, is the same function.
        label = _ADDRESS.sub("", name) if built_in else None
    module = place[1] if place else ""
    if place and module.rpartition("/")[2] == INJECTED_FILE:
        # Each job copies it to its own directory, and it is the same in all of them.
        module, label = INJECTED_FILE, f"{INJECTED_FILE}({place[2]}): {place[3]}"
    return SliceType(
        kind=kind,
        frame_kind=_FRAMES.get(kind, FrameKind.UNKNOWN),
        track_kind=where,
        nesting_order=_OUTER.get(kind, 2),
        label=label,
        display=place[3] if place else built_in[1] if built_in else None,
        module=module,
        file=place[1] if place else None,
        line=int(place[2]) if place and len(place[2]) < 10 else None,
    )


def get_work_kind(kind: str, name: str) -> DeviceWorkKind:
    """The kind of work of a slice with this kind and name."""
    if kind == "memcpy":
        return DeviceWorkKind.MEMCPY
    if kind == "memset":
        return DeviceWorkKind.MEMSET
    if kind != "kernel":
        return DeviceWorkKind.OTHER
    return DeviceWorkKind.COMMUNICATION if _COMMUNICATION.search(name) else DeviceWorkKind.COMPUTATION
