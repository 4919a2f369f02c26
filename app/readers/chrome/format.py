"""The name of the format, and its losses."""

from ...ingest.trace.losses import TRACE_LOSSES
from ...ingest.trace_json.losses import TRACE_JSON_LOSSES
from ...ingest.v8_profile import V8_LOSSES

FORMAT = "chrome-trace"
LOSSES = (*TRACE_JSON_LOSSES, *TRACE_LOSSES, *V8_LOSSES)
