"""What figures a loss is missing from, by its reason."""

EVENT_WITHOUT_VALUE = "event without a value: "
"""Losses whose reason begins so are missing from the figures of the event that they name, and are next to it."""

SAMPLE_LABELS = "label of a sample, which has no place here"
PART_OF_EVENT = "part of a track event that is not shown"
PACKET = "packet whose content is not shown: "
KERNEL_EVENT = "event of the kernel of a sort that is not shown"
NO_MARKER = "text in the kernel's trace that is no mark"
UNKNOWN_PHASE = "event of the sort "
UNUSED_STACK = "call stack of an event that tells nothing of where a thread ran or waited, which is not shown"
STACK_OF_CALL = "call stack below a system call, which is not shown"
ASYNC_TASKS = "what tasks of asyncio waited for, which has no place here"
NO_LAUNCH = "device work that no call on the host is known of"
NO_UNICODE = "text that is no valid Unicode, shown as it is written"

HARMLESS_REASONS = (
    *(SAMPLE_LABELS, PART_OF_EVENT, PACKET, KERNEL_EVENT, NO_MARKER, UNKNOWN_PHASE),
    *(UNUSED_STACK, STACK_OF_CALL, ASYNC_TASKS, NO_LAUNCH, NO_UNICODE),
)
"""Losses whose reason begins so leave figures whole: they are of what no page shows, or of a link between things that
are all there, as device work without a call is in all figures but those of launches. All others may be missing from
any figure."""


def affects_values(reason: str) -> bool:
    """Whether figures may be too small for a loss that is not next to them."""
    return not reason.startswith((EVENT_WITHOUT_VALUE, *HARMLESS_REASONS))
