"""The attributes of an event, `struct perf_event_attr` of include/uapi/linux/perf_event.h, and how perf prints them."""

import struct
import time
from dataclasses import dataclass
from enum import IntFlag

from .unsupported import UnsupportedRecords

MIN_BYTES, MAX_BYTES = 64, 1024
_LAYOUT = struct.Struct("<IIQQQQQIIQQQQIiQIHHIIQQ")
_FIELDS = (
    *("type", "size", "config", "sample_period", "sample_type", "read_format", "flags", "wakeup_events", "bp_type"),
    *("bp_addr", "bp_len", "branch_sample_type", "sample_regs_user", "sample_stack_user", "clockid"),
    *("sample_regs_intr", "aux_watermark", "sample_max_stack", "reserved_2", "aux_sample_size", "reserved_3"),
    *("sig_data", "config3"),
)


class SampleType(IntFlag):
    """What a sample contains, PERF_SAMPLE_*, in the order of their bits."""

    IP = 1 << 0
    TID = 1 << 1
    TIME = 1 << 2
    ADDR = 1 << 3
    READ = 1 << 4
    CALLCHAIN = 1 << 5
    ID = 1 << 6
    CPU = 1 << 7
    PERIOD = 1 << 8
    STREAM_ID = 1 << 9
    RAW = 1 << 10
    BRANCH_STACK = 1 << 11
    REGS_USER = 1 << 12
    STACK_USER = 1 << 13
    WEIGHT = 1 << 14
    DATA_SRC = 1 << 15
    IDENTIFIER = 1 << 16
    TRANSACTION = 1 << 17
    REGS_INTR = 1 << 18
    PHYS_ADDR = 1 << 19
    AUX = 1 << 20
    CGROUP = 1 << 21
    DATA_PAGE_SIZE = 1 << 22
    CODE_PAGE_SIZE = 1 << 23
    WEIGHT_STRUCT = 1 << 24


TRACEPOINT = 2
"""PERF_TYPE_TRACEPOINT."""
FLAGS = (
    *("disabled", "inherit", "pinned", "exclusive", "exclude_user", "exclude_kernel", "exclude_hv", "exclude_idle"),
    *("mmap", "comm", "freq", "inherit_stat", "enable_on_exec", "task", "watermark", "precise_ip", "", "mmap_data"),
    *("sample_id_all", "exclude_host", "exclude_guest", "exclude_callchain_kernel", "exclude_callchain_user"),
    *("mmap2", "comm_exec", "use_clockid", "context_switch", "write_backward", "namespaces", "ksymbol", "bpf_event"),
    *("aux_output", "cgroup", "text_poke", "build_id", "inherit_thread", "remove_on_exec", "sigtrap"),
)
"""In the order of their bits; precise_ip has two."""
_READ_FORMATS = ("TOTAL_TIME_ENABLED", "TOTAL_TIME_RUNNING", "ID", "GROUP", "LOST")
_HARDWARE_NAMES = (
    *("cycles", "instructions", "cache-references", "cache-misses", "branches", "branch-misses", "bus-cycles"),
    *("stalled-cycles-frontend", "stalled-cycles-backend", "ref-cycles"),
)
_SOFTWARE_NAMES = (
    *("cpu-clock", "task-clock", "page-faults", "context-switches", "cpu-migrations", "minor-faults"),
    *("major-faults", "alignment-faults", "emulation-faults", "dummy"),
)


@dataclass(frozen=True)
class AttributeFields:
    """The attributes of one event. fields: by their names in the header file; those of `FLAGS` are bits of "flags"."""

    fields: dict[str, int]

    @classmethod
    def parse(cls, data: bytes) -> "AttributeFields":
        """The attributes in `data`, which older versions wrote without the last fields. Raises UnsupportedRecords."""
        size = int.from_bytes(data[4:8], "little") or MIN_BYTES
        if not MIN_BYTES <= size <= MAX_BYTES or len(data) < MIN_BYTES:
            raise UnsupportedRecords(f"the attributes of an event have {size:,} bytes")
        known = data[: min(size, _LAYOUT.size)].ljust(_LAYOUT.size, b"\0")
        return cls(dict(zip(_FIELDS, _LAYOUT.unpack(known), strict=True)))

    def has(self, flag: str) -> bool:
        """Whether a flag is set."""
        return bool(self.fields["flags"] >> FLAGS.index(flag) & 1)

    @property
    def precise_ip(self) -> int:
        """0 to 3: how exact the address of a sample has to be."""
        return self.fields["flags"] >> FLAGS.index("precise_ip") & 3

    @property
    def is_monotonic(self) -> bool:
        """Whether times are of CLOCK_MONOTONIC."""
        return self.has("use_clockid") and self.fields["clockid"] == time.CLOCK_MONOTONIC

    @property
    def sample_type(self) -> SampleType:
        return SampleType(self.fields["sample_type"] & (2 * SampleType.WEIGHT_STRUCT - 1))

    @property
    def sample_type_is_known(self) -> bool:
        """Whether nothing that this module does not know is in a sample."""
        return self.fields["sample_type"] < 2 * SampleType.WEIGHT_STRUCT

    def derive_name(self) -> str:
        """The name that perf gives to an event without a name in the file. Raises UnsupportedRecords if that depends
        on the machine."""
        names = {0: _HARDWARE_NAMES, 1: _SOFTWARE_NAMES}.get(self.fields["type"], ())
        if self.fields["config"] >= len(names):
            raise UnsupportedRecords("an event has no name")
        modifiers, by_default = "", False
        if self.has("exclude_kernel") or self.has("exclude_user") or self.has("exclude_hv"):
            kept = (("exclude_kernel", "k"), ("exclude_user", "u"), ("exclude_hv", "h"))
            modifiers = "".join(letter for flag, letter in kept if not self.has(flag))
            by_default = True
        if self.precise_ip:
            modifiers += "p" * self.precise_ip
            by_default = True
        if self.has("exclude_host") or self.has("exclude_guest") == by_default:
            modifiers += "H" * (not self.has("exclude_host")) + "G" * (not self.has("exclude_guest"))
        return names[self.fields["config"]] + (f":{modifiers}" if modifiers else "")

    def describe(self) -> str:
        """The attributes that are not 0, as `perf script --header` prints them."""
        fields = self.fields
        values: list[tuple[str, str]] = []

        def add(label: str, text: str | int) -> None:
            if text:
                values.append((label, str(text)))

        add("type", fields["type"])
        add("size", fields["size"])
        add("config", _hexadecimal(fields["config"]))
        add("{ sample_period, sample_freq }", fields["sample_period"])
        add("sample_type", "|".join(bit.name or "" for bit in self.sample_type))
        formats = enumerate(_READ_FORMATS)
        add("read_format", "|".join(name for bit, name in formats if fields["read_format"] >> bit & 1))
        for flag in filter(None, FLAGS):
            add(flag, self.precise_ip if flag == "precise_ip" else int(self.has(flag)))
        add("{ wakeup_events, wakeup_watermark }", fields["wakeup_events"])
        add("bp_type", fields["bp_type"])
        add("{ bp_addr, config1 }", _hexadecimal(fields["bp_addr"]))
        add("{ bp_len, config2 }", _hexadecimal(fields["bp_len"]))
        add("clockid", fields["clockid"])
        add("aux_watermark", fields["aux_watermark"])
        add("sample_max_stack", fields["sample_max_stack"])
        add("aux_sample_size", fields["aux_sample_size"])
        add("sig_data", fields["sig_data"])
        return "".join(f", {label} = {text}" for label, text in values)


def _hexadecimal(value: int) -> str:
    return f"{value:#x}" if value else ""
