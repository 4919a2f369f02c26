"""Lines of a text trace at the speed of memory. Needs the compiler."""

from collections.abc import Iterable

import numpy as np

from ...ingest.trace_json.columns import Growing
from ...ingest.trace_json.interning import grown, table
from ...ingest.trace_json.masks import PAD
from .format import NO_LINE
from .kernel import FULL, ODD, WORDS, Rows, scan
from .lines import COLUMNS, Array, ByHand

ROWS = 1 << 16
TEXTS = 1 << 12
TEXT_BYTES = 1 << 20


def scanned(chunks: Iterable[tuple[bytes, bool]], by_hand: ByHand) -> tuple[dict[str, Array], list[bytes]]:
    """(columns as in Lines, the texts that they are places in). by_hand: takes in what is not understood here."""
    texts = table(TEXTS, TEXT_BYTES)
    rows = Rows(*(np.empty(ROWS, kind) for kind in COLUMNS.values()))
    columns = {name: Growing(kind) for name, kind in COLUMNS.items()}
    at = np.zeros(5, np.int64)

    def keep() -> None:
        for column, values in zip(columns.values(), rows, strict=True):
            column.add(values[: at[0]])
        at[0] = 0

    for chunk, whole in chunks:
        if not whole:
            at[4] += 1
            by_hand.leave_out(NO_LINE, chunk, int(at[4]))
            continue
        data = np.frombuffer(chunk + bytes(PAD), np.uint8)
        at[1] = 0
        while (why := scan(data, len(chunk), WORDS, rows, texts, at)) in (FULL, ODD):
            if why == ODD:
                start = int(at[1])
                end = chunk.index(b"\n", start)
                at[1], at[4] = end + 1, at[4] + 1
                if row := by_hand.row(chunk[start:end], int(at[4])):
                    for column, value in zip(rows, row, strict=True):
                        column[at[0]] = value
                    at[0] += 1
            elif at[0] == ROWS:
                keep()
            else:
                texts = grown(texts, int(at[2]), int(at[3]), 2 * len(texts.start), 2 * len(texts.text))
    keep()
    count = int(at[2])
    starts, lengths, text = texts.start[:count].tolist(), texts.length[:count].tolist(), texts.text.tobytes()
    return (
        {name: column.finished() for name, column in columns.items()},
        [text[start : start + length] for start, length in zip(starts, lengths, strict=True)],
    )
