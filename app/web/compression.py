"""Compresses text responses with gzip if the browser accepts it.

Pages contain a secret, the CSRF token, next to text chosen by others. The token is masked differently for every page
(see session), so the length of a compressed page reveals nothing (BREACH).
"""

import gzip
import zlib
from collections.abc import Iterable, Iterator

from flask import Flask, Response, request

MIN_BYTES = 1_000
GZIP_LEVEL, FAST_GZIP_LEVEL = 5, 1
"""Large responses are repetitive: level 1 compresses an export to a twentieth, in a third of the time."""
FAST_BYTES = 1 << 20
"""Responses above this size, and those that are streamed, are compressed with the fast level."""
GZIP_WBITS = 31
"""zlib's wbits for gzip."""
COMPRESSED_TYPES = frozenset(
    {
        "application/json",
        "image/svg+xml",
        "text/css",
        "text/csv",
        "text/html",
        "text/javascript",
        "text/plain",
    }
)


def register(app: Flask) -> None:
    """Compress the responses of `app`."""
    app.after_request(_pack)


def _pack(response: Response) -> Response:
    if response.mimetype not in COMPRESSED_TYPES:
        return response
    response.vary.add("Accept-Encoding")
    if (
        response.status_code != 200
        or response.direct_passthrough
        or "Content-Encoding" in response.headers
        or request.accept_encodings["gzip"] <= 0
    ):
        return response
    if response.is_streamed:
        response.response = _compress(response.response)  # type: ignore[arg-type]
        response.headers["Content-Encoding"] = "gzip"
        response.headers.pop("Content-Length", None)
        return response
    content = response.get_data()
    if len(content) < MIN_BYTES:
        return response
    response.set_data(gzip.compress(content, FAST_GZIP_LEVEL if len(content) > FAST_BYTES else GZIP_LEVEL, mtime=0))
    response.headers["Content-Encoding"] = "gzip"
    etag, weak = response.get_etag()
    if etag is not None and not weak:
        response.set_etag(f"{etag}-gzip")
    return response


def _compress(pieces: Iterable[bytes]) -> Iterator[bytes]:
    packer = zlib.compressobj(FAST_GZIP_LEVEL, zlib.DEFLATED, GZIP_WBITS)
    for piece in pieces:
        packed = packer.compress(piece)
        if packed:
            yield packed
    yield packer.flush()
