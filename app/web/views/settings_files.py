"""Files with the settings of jobs and targets, in TOML or JSON."""

from flask import request

from ...domain.errors import InvalidRequest
from ...recording.fields.serialization import MAX_BYTES

MEDIA_TYPES = {"toml": "application/toml", "json": "application/json"}


def read_uploaded_file(missing: str, most: int = MAX_BYTES) -> tuple[str, bytes]:
    """An exchanged file: its name, safe to display, and its content up to one byte more than `most`.

    Raises InvalidRequest with the text `missing` where none was sent.
    """
    sent = request.files.get("file")
    if sent is None or not sent.filename:
        raise InvalidRequest(missing, "file")
    name = "".join(sign for sign in sent.filename.rpartition("/")[2] if sign.isprintable())[:100]
    return name, sent.stream.read(most + 1)
