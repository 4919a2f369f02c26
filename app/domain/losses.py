"""Which losses affect figures, by their reason."""

EVENT_WITHOUT_VALUE = "event without a value: "
"""A loss with this prefix affects only the figures of the event that it names, and is shown next to it."""

SAMPLE_LABELS = "sample label that is not shown"
PART_OF_EVENT = "part of a track event that is not shown"
PACKET = "packet whose content is not shown: "
KERNEL_EVENT = "kernel event of a type that is not shown"
NO_MARKER = "kernel trace text that is not an atrace marker"
UNKNOWN_PHASE = "event of phase "
UNUSED_STACK = "call stack of an event without a scheduling interval"
STACK_OF_CALL = "call stack below a system call, which is not shown"
ASYNC_TASKS = "asyncio task dependency that is not shown"
NO_LAUNCH = "device work without a launch call on the host"
NO_UNICODE = "text that is not valid Unicode, shown as written"
SUMS_OF_FILES = "file with sums or ratios of other files, not read"

_EARLIER_REASONS = (
    "label of a sample, which has no place here",
    "event of the kernel of a sort that is not shown",
    "text in the kernel's trace that is no mark",
    "event of the sort ",
    "call stack of an event without information about where a thread ran or waited, which is not shown",
    "what tasks of asyncio waited for, which has no place here",
    "device work that no call on the host is known of",
    "text that is no valid Unicode, shown as it is written",
)
"""The reasons of earlier versions, which their stored results contain."""

HARMLESS_REASONS = (
    *(SAMPLE_LABELS, PART_OF_EVENT, PACKET, KERNEL_EVENT, NO_MARKER, UNKNOWN_PHASE),
    *(UNUSED_STACK, STACK_OF_CALL, ASYNC_TASKS, NO_LAUNCH, NO_UNICODE, SUMS_OF_FILES),
)
"""Losses with one of these prefixes do not change any displayed figure. They concern data without a page, or a link
between two items that are both present: device work without a launch is part of all figures except those of
launches."""


def affects_values(reason: str) -> bool:
    """Whether figures may be too small because of a loss that is not marked next to them."""
    return not reason.startswith((EVENT_WITHOUT_VALUE, *HARMLESS_REASONS, *_EARLIER_REASONS))
