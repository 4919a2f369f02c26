"""Trace events at memory speed: chunks of the file are scanned by compiled loops, in as many threads as there are
processors, and events that these cannot parse are decoded one by one.

Each chunk ends where an event seems to begin, which only the scan of the previous chunk can confirm. If that ends
elsewhere, the results of later chunks are discarded.
"""

import os
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

from ...domain.arrays import Array
from ...domain.tables import NUMERIC_ARGUMENTS
from ..trace.events import ID_TEXT, NumericArgument, TraceEvents
from .decoder import (
    DecodedEvent,
    apply_shifts,
    decode_event_at,
    decode_texts,
    parse_small_id,
)
from .documents import DocumentReader, LossCounts, skip_damaged
from .grammar import MalformedValue, NeedMoreData
from .growable import GrowableColumn
from .scanner import (
    FULL,
    ODD,
    WORK_SIZE,
    EventColumns,
    make_key_table,
    remap_codes,
    scan_events,
)
from .string_table import StringTable, clear, grow, intern_all, make_table
from .window import CHUNK_BYTES, PAD, TextChunk, Window, open_window

MAX_THREADS = 4
ROWS = 1 << 15
TEXTS = 1 << 12
TEXT_BYTES = 1 << 20
KEYS = make_key_table()
_CODES = ("name", "category", "process", "thread", "arguments")


def scan_events_parallel(stream: BinaryIO, piece_bytes: int = CHUNK_BYTES, threads: int | None = None) -> TraceEvents:
    """The events in a stream of decompressed bytes. Raises what reading the stream does; its content never raises."""
    threads = threads or min(MAX_THREADS, len(os.sched_getaffinity(0)))
    with ThreadPoolExecutor(threads, "perfloom-scan") as pool, open_window(stream, piece_bytes) as window:
        return DocumentReader(window, ParallelScanner(pool, threads)).read()


@dataclass(frozen=True, eq=False)
class ScanResult:
    """The content of a chunk. at: see `scanner.scan_events`; at[1] is where it stopped."""

    piece: TextChunk
    rows: EventColumns
    table: StringTable
    at: Array
    losses: LossCounts


class ChunkScanner:
    """Scans one chunk after the other."""

    def __init__(self) -> None:
        self._rows = _make_rows(ROWS)
        self._table = make_table(TEXTS, TEXT_BYTES)
        self._work = np.empty(WORK_SIZE, np.int64)
        self._at = np.zeros(4, np.int64)

    def scan(self, piece: TextChunk) -> ScanResult:
        """The content of a chunk, up to the first non-event. The next chunk takes its place."""
        at = self._at
        at[:] = 0, piece.start, 0, 0
        self._rows.counts[:] = 0
        clear(self._table)
        losses = LossCounts()
        array, end = piece.array, piece.end
        while True:
            why = scan_events(array, at[1], piece.stop, end, KEYS, self._rows, self._table, self._work, at)
            if why == FULL:
                self._grow()
            elif why != ODD or not self._decode_odd_event(piece, losses):
                return ScanResult(piece, self._rows, self._table, at, losses)

    def _grow(self) -> None:
        """Make more room for rows if there is none, else for texts."""
        if self._at[0] == len(self._rows.phase):
            old, self._rows = self._rows, _make_rows(2 * len(self._rows.phase))
            for before, after in zip(old, self._rows, strict=True):
                after[..., : before.shape[-1]] = before
        else:
            sizes = 2 * len(self._table.start), 2 * len(self._table.text)
            self._table = grow(self._table, int(self._at[2]), int(self._at[3]), *sizes)

    def _decode_odd_event(self, piece: TextChunk, losses: LossCounts) -> bool:
        """Decode the event at which the scan stopped, or skip damage; False if neither can be done here."""
        start = int(self._at[1])
        try:
            event, end = decode_event_at(piece, start, losses)
        except MalformedValue:
            behind = skip_damaged(piece, start, losses)
            self._at[1] = start if behind is None else behind
            return behind is not None
        except NeedMoreData:
            return False
        if event is not None:
            self._add(event, start)
        self._at[1] = end
        return True

    def _add(self, event: DecodedEvent, start: int) -> None:
        texts = (event.name, event.category, event.process, event.thread, event.arguments)
        size = sum(len(text) for text in (*texts, event.id) if text)
        while (
            self._at[0] == len(self._rows.phase)
            or self._at[2] + 8 > len(self._table.start)
            or self._at[3] + size + 512 > len(self._table.text)
        ):
            self._grow()
        row = int(self._at[0])
        small = parse_small_id(event.id)
        *codes, id_ = self._number_texts((*texts, event.id if small is None else None), start)
        for name, code in zip(_CODES, codes, strict=True):
            getattr(self._rows, name)[row] = code
        self._rows.id[row] = small if small is not None else ID_TEXT + id_ if id_ >= 0 else -1
        self._rows.phase[row] = event.phase
        self._rows.time_ns[row] = event.time_ns
        self._rows.duration_ns[row] = event.duration_ns
        for key, number in event.numbers.items():
            index = NUMERIC_ARGUMENTS.index(key)
            count = self._rows.counts[index]
            self._rows.event[index, count] = row
            self._rows.value[index, count] = number
            self._rows.counts[index] = count + 1
        self._at[0] = row + 1

    def _number_texts(self, texts: Sequence[bytes | None], start: int) -> list[int]:
        """The ids of texts, -1 for none."""
        padded = np.frombuffer(bytearray(b"".join(text or b"" for text in texts) + bytes(PAD)), np.uint8)
        lengths = np.array([-1 if text is None else len(text) for text in texts])
        codes = np.empty(len(texts), np.int64)
        intern_all(padded, lengths, start, self._table, self._at, codes)
        number_texts: list[int] = codes.tolist()
        return number_texts


class ParallelScanner:
    """Reads events by scanning chunks of the window, several of them at the same time."""

    def __init__(self, pool: ThreadPoolExecutor, threads: int) -> None:
        self._pool = pool
        self._idle = [ChunkScanner() for _ in range(threads + 1)]
        self._sure = True
        self._table = make_table(TEXTS, TEXT_BYTES)
        self._at = np.zeros(4, np.int64)
        self._columns = {name: GrowableColumn(np.int32) for name in (*_CODES, "id")}
        self._columns |= {
            "time_ns": GrowableColumn(np.int64),
            "duration_ns": GrowableColumn(np.int64),
            "phase": GrowableColumn(np.uint8),
        }
        self._numbers = [(GrowableColumn(np.int32), GrowableColumn(np.int64)) for _ in NUMERIC_ARGUMENTS]

    def __len__(self) -> int:
        return self._columns["phase"].count

    def feed(self, window: Window, losses: LossCounts) -> None:
        """See `Block`."""
        flying: deque[tuple[ChunkScanner, TextChunk, Future[ScanResult]]] = deque()
        try:
            while True:
                while self._idle and (self._sure or not flying) and (piece := window.cut_chunk()) is not None:
                    scanner = self._idle.pop()
                    flying.append((scanner, piece, self._submit_scan(scanner, piece)))
                if not flying:
                    return
                scanner, piece, future = flying.popleft()
                found = future.result()
                self._keep(found)
                losses.add(found.losses)
                self._idle.append(scanner)
                stopped = int(found.at[1])
                self._sure = stopped == piece.stop
                if not self._sure:
                    window.put_back(stopped, [piece, *(one for _, one, _ in flying)])
                    return
        finally:
            for scanner, _, future in flying:
                if not future.cancel():
                    future.exception()
                self._idle.append(scanner)

    def _submit_scan(self, scanner: ChunkScanner, piece: TextChunk) -> Future[ScanResult]:
        """The result of a chunk, in another thread; in this one if damage is likely nearby."""
        if self._sure:
            return self._pool.submit(scanner.scan, piece)
        submit_scan: Future[ScanResult] = Future()
        submit_scan.set_result(scanner.scan(piece))
        return submit_scan

    def _keep(self, scan_result: ScanResult) -> None:
        """Append the content of a chunk."""
        rows, at = scan_result.rows, scan_result.at
        count, start = int(at[0]), len(self)
        texts, used = int(self._at[2] + at[2]), int(self._at[3] + at[3])
        if texts + 8 > len(self._table.start) or used + 512 > len(self._table.text):
            sizes = max(texts + 8, 2 * len(self._table.start)), max(used + 512, 2 * len(self._table.text))
            self._table = grow(self._table, int(self._at[2]), int(self._at[3]), *sizes)
        same = np.full(int(at[2]), -1, np.int32)
        for name in (*_CODES, "id"):
            column = self._columns[name]
            base = ID_TEXT if name == "id" else 0
            codes = getattr(rows, name)[:count]
            remap_codes(
                codes,
                base,
                scan_result.table,
                scan_result.piece.place,
                same,
                self._table,
                self._at,
                column.reserve(start + count)[start:],
            )
            column.count = start + count
        for name in ("time_ns", "duration_ns", "phase"):
            self._columns[name].add(getattr(rows, name)[:count])
        for which, (event, value) in enumerate(self._numbers):
            if number := int(rows.counts[which]):
                event.add(rows.event[which, :number] + np.int32(start))
                value.add(rows.value[which, :number])

    def finish(self, shifts: list[tuple[int, int]], top: dict[str, Any], losses: LossCounts) -> TraceEvents:
        """See `Block`."""
        count, used = int(self._at[2]), int(self._at[3])
        starts = self._table.start[:count]
        texts, same = decode_texts(
            self._table.text[:used], starts, starts + self._table.length[:count], self._table.place[:count], losses
        )
        columns = {name: column.to_array() for name, column in self._columns.items()}
        if same is not None:
            for name in _CODES:
                known = columns[name] >= 0
                columns[name][known] = same[columns[name][known]]
            known = columns["id"] >= ID_TEXT
            columns["id"][known] = ID_TEXT + same[columns["id"][known] - ID_TEXT]
        apply_shifts(columns["time_ns"], shifts)
        numbers = {
            key: NumericArgument(event.to_array(), value.to_array())
            for key, (event, value) in zip(NUMERIC_ARGUMENTS, self._numbers, strict=True)
            if event.count
        }
        return TraceEvents(texts=texts, numbers=numbers, top=top, lost=losses.to_list(), **columns)


def _make_rows(room: int) -> EventColumns:
    kinds = {"phase": np.uint8, "time_ns": np.int64, "duration_ns": np.int64, "event": np.int32, "value": np.int64}
    shapes: dict[str, Any] = {
        "event": (len(NUMERIC_ARGUMENTS), room),
        "value": (len(NUMERIC_ARGUMENTS), room),
        "counts": len(NUMERIC_ARGUMENTS),
    }
    kinds["counts"] = np.int64
    return EventColumns(*(np.zeros(shapes.get(name, room), kinds.get(name, np.int32)) for name in EventColumns._fields))
