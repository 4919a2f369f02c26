"""Meta: metadata of a whole profile. Separate from tables, whose libraries are not needed to list results."""

from dataclasses import asdict, dataclass, field
from typing import Any

from .json_fields import select_known_fields

PYTORCH_PROFILE = "pytorch-profile"
"""A capability: PyTorch made the file, so pages use its terms and expect its operators and memory."""
KERNEL_TRACE = "kernel-trace"
"""A capability: series of kernels with times, which can be matched with a kernel report."""
KERNEL_REPORT = "kernel-report"
"""A capability: metrics of single kernel launches."""
CAPABILITIES_OF_FORMATS = {
    "pytorch": (KERNEL_TRACE, PYTORCH_PROFILE),
    "pytorch-memory-snapshot": (PYTORCH_PROFILE,),
    "pytorch-memory-timeline": (PYTORCH_PROFILE,),
    "nsight-compute": (KERNEL_REPORT,),
    "nsight-compute-csv": (KERNEL_REPORT,),
    "mixed": (PYTORCH_PROFILE,),
}
"""Capabilities of profiles that were stored without them. Readers write their own; add no format here."""


@dataclass(frozen=True)
class Meta:
    """Metadata of the whole profile. Serialized as JSON into the manifest of a stored result.

    duration_ns: from the first to the last observation (null: the format has no time). start_epoch_ns: the time of the
    profile's zero, since the epoch (null: not known). main_event: the default event of pages. complete: false if the
    recording is truncated; `reasons` has the causes. facts: other metadata of the file, as written (hostname, cpudesc,
    cmdline, perf version …). capabilities: what the profile contains, for pages and analyses, sorted; they do not
    depend on its format.
    """

    format: str
    duration_ns: int | None = None
    start_epoch_ns: int | None = None
    clock: str | None = None
    main_event: str | None = None
    command: str | None = None
    complete: bool = True
    reasons: tuple[str, ...] = ()
    facts: dict[str, str] = field(default_factory=dict)
    capabilities: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"reasons": list(self.reasons), "capabilities": list(self.capabilities)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Meta":
        known_fields = select_known_fields(cls, data)
        capabilities = known_fields.get(
            "capabilities", CAPABILITIES_OF_FORMATS.get(str(known_fields.get("format")), ())
        )
        return cls(
            **known_fields | {"reasons": tuple(known_fields.get("reasons", ())), "capabilities": tuple(capabilities)}
        )
