"""Where records begin, in what `perf record -z` packed."""

import struct

import numpy as np
import pytest
import zstandard

from perfloom.ingest.perf_records.record_index import SAMPLE, index_records

PACKED = 81
RECORD_BYTES = 16
BLOCK_BYTES = 1 << 17
"""Of zstd, at most."""


@pytest.mark.parametrize("size", [BLOCK_BYTES, BLOCK_BYTES + RECORD_BYTES, 2 * BLOCK_BYTES, 3 * BLOCK_BYTES - 8])
def test_packed_records_are_complete(size: int) -> None:
    """Also if their last bytes are in a block that does not fit into the buffer of zstd with what is before it."""
    counts = size // RECORD_BYTES
    records = b"".join(struct.pack("<IHHQ", SAMPLE, 0, RECORD_BYTES, number % 50) for number in range(counts))
    packer = zstandard.ZstdCompressor(level=1).compressobj()
    data = b""
    # What perf packs begins within a block.
    for part in (records[:48], records[48:]):
        packed = packer.compress(part) + packer.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
        data += struct.pack("<IHH", PACKED, 0, 8 + len(packed)) + packed
    index = index_records(data, 0, len(data), 1 << 30)
    assert index.words.tobytes() == records
    assert np.array_equal(index.place, np.arange(counts) * (RECORD_BYTES // 8))
