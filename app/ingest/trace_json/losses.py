"""Why parts of a trace in JSON could not be read."""

from ...domain.losses import NO_UNICODE
from ..trace.losses import CUT_OFF
from .grammar import MAX_ARGUMENT_DEPTH

DAMAGED = "text that is not JSON, or nested deeper than 1,000 levels"
NO_EVENT = "element of traceEvents that is not an event"
NO_DOCUMENT = "text that is not a document with traceEvents"
NO_EVENTS = "traceEvents that are not a list"
OTHER_VALUE = "value of a second document that differs from the first one's"
NO_VALUE = "value that is not JSON, such as NaN"
NO_PHASE = "ph that is not a letter"
NO_TEXT = "name, category, process, thread or id that is neither text nor a number"
NO_TIME = "time that is not a number"
TOO_LARGE_TIME = "time that is too large"
NO_ARGUMENTS = "args that are not an object"
TOO_DEEP_ARGUMENT = f"argument nested deeper than {MAX_ARGUMENT_DEPTH} levels"

TRACE_JSON_LOSSES = (
    *(CUT_OFF, DAMAGED, NO_EVENT, NO_DOCUMENT, NO_EVENTS, OTHER_VALUE, NO_VALUE),
    *(NO_PHASE, NO_TEXT, NO_TIME, TOO_LARGE_TIME, NO_ARGUMENTS, TOO_DEEP_ARGUMENT, NO_UNICODE),
)
