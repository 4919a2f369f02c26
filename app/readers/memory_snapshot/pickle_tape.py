"""Reads a pickle of plain values without running it: lists, tuples, dicts, texts, numbers, True, False and None.

`pickle_machine` runs the opcodes; this module calls it block by block and translates its errors. The values stay on its
tape, which takes a few times the pickle's length at most, and are read from it as columns.
"""

import pickletools
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, BinaryIO

import numpy as np

from ...domain.arrays import Array
from ...domain.errors import UnreadableInput
from . import pickle_machine as machine

BLOCK_BYTES = 1 << 20
FEW_BYTES = 64 << 10
"""Below this size it is faster not to wait for the compiler, or for its cache."""
MAX_VALUE_BYTES = 64 << 20
NOT_PLAIN = (
    "{source} cannot be read: its pickle has {what} at byte {at:,}. Perfloom reads only lists, dicts, strings and "
    "numbers, since a memory snapshot has nothing else and other opcodes can run a program. Write the snapshot "
    "with torch.cuda.memory._dump_snapshot, and do not change it."
)


@dataclass(frozen=True, eq=False)
class Tape:
    """The values of a pickle. root: the number of the outermost, None if there is none. complete: whether the pickle
    was read to its end; otherwise everything before its end is available."""

    kind: Array
    value: Array
    items: Array
    chunk_start: Array
    chunk_count: Array
    chunk_before: Array
    arena: Array
    texts: Array
    root: int | None
    complete: bool
    _known: dict[bytes, int] = field(default_factory=dict)
    _codes: list[Array] = field(default_factory=list)
    _words: list[str] = field(default_factory=list)

    def get_members(self, node: int) -> Array:
        """The members of a list or tuple, in order; of a dict keys and values alternate. Other values have none."""
        parts = []
        if int(self.kind[node]) in (machine.LIST, machine.TUPLE, machine.DICT):
            chunk = int(self.value[node])
            while chunk >= 0:
                start = int(self.chunk_start[chunk])
                parts.append(self.items[start : start + int(self.chunk_count[chunk])])
                chunk = int(self.chunk_before[chunk])
        return np.concatenate(parts[::-1]) if parts else np.zeros(0, np.int32)

    def are_lists(self, nodes: Array) -> Array:
        """Which values are lists or tuples, as bools; -1 is none."""
        kind = self.kind[np.maximum(nodes, 0)]
        found: Array = (nodes >= 0) & ((kind == machine.LIST) | (kind == machine.TUPLE))
        return found

    def get_dict_values(self, nodes: Array, names: Iterable[str]) -> dict[str, Array]:
        """The values of dicts under each name, as numbers of values by node; -1 if there is no such key, or it is no
        dict."""
        distinct, inverse = np.unique(nodes, return_inverse=True)
        found = {name: np.full(len(distinct), -1, np.int64) for name in names}
        code = {name: self.find_code(name) for name in found}
        rows = np.flatnonzero((distinct >= 0) & (self.kind[distinct] == machine.DICT))
        chunk = self.value[distinct[rows]]
        while len(rows := rows[chunk >= 0]):
            chunk = chunk[chunk >= 0]
            count = self.chunk_count[chunk] // 2
            ends = np.cumsum(count)
            row = np.repeat(rows, count)
            place = np.repeat(self.chunk_start[chunk] - 2 * (ends - count), count) + 2 * np.arange(len(row))
            key = self.code_of(self.items[place])
            for name, values in found.items():
                hits = np.flatnonzero(key == code[name]) if code[name] >= 0 else np.zeros(0, np.int64)
                # Chunks come last first: an existing value was written later.
                hits = hits[values[row[hits]] < 0]
                values[row[hits]] = self.items[place[hits] + 1]
            chunk = self.chunk_before[chunk]
        return {name: values[inverse] for name, values in found.items()}

    def get_numbers(self, nodes: Array, missing: int) -> Array:
        """Whole numbers (a float is rounded down, True is 1); `missing` for other values."""
        known = np.maximum(nodes, 0)
        kind, value = self.kind[known], self.value[known]
        result = np.where((kind == machine.INT) & (nodes >= 0), value, missing)
        result[(nodes >= 0) & (kind == machine.TRUE)] = 1
        result[(nodes >= 0) & (kind == machine.FALSE)] = 0
        floating = np.flatnonzero((kind == machine.FLOAT) & (nodes >= 0))
        if len(floating):
            numbers = np.ascontiguousarray(value[floating]).view(np.float64)
            good = np.abs(numbers) < 2.0**62
            result[floating[good]] = numbers[good].astype(np.int64)
        return result

    def code_of(self, nodes: Array) -> Array:
        """A number for each text, the same for the same text: its index in `words`. -1 for other values."""
        self._known_codes()
        known = np.maximum(nodes, 0)
        text = (self.kind[known] == machine.TEXT) & (nodes >= 0)
        codes = self._codes[0] if len(self._codes[0]) else np.zeros(1, np.int64)
        return np.where(text, codes[np.where(text, self.value[known], 0)], -1)

    def find_code(self, word: str) -> int:
        """The number that `code_of` returns for a text; -2 if it does not occur."""
        return self._known_codes().get(word.encode(), -2)

    def get_words(self) -> list[str]:
        """The distinct texts."""
        known = self._known_codes()
        if len(self._words) < len(known):
            self._words.extend(word.decode("utf-8", "replace") for word in known)
        return self._words

    def _known_codes(self) -> dict[bytes, int]:
        if not self._codes:
            content, ends, known = self.arena.tobytes(), self.texts.tolist(), self._known
            codes = [known.setdefault(content[start:end], len(known)) for start, end in pairwise(ends)]
            self._codes.append(np.array(codes, np.int64))
        return self._known


def read(stream: BinaryIO, source: str) -> Tape:
    """The values of the pickle in a stream. Bytes after its end are not read.

    Raises UnreadableInput for a pickle of other than plain values, and for a malformed one.
    """
    running = _MachineState(source)
    rest = b""
    wanted = 0
    while True:
        block = stream.read(max(BLOCK_BYTES, wanted - len(rest)))
        data = rest + block if rest else block
        used, status, detail = running.run(data)
        if status == machine.DONE:
            return running.build_tape(complete=True)
        if status != machine.MORE:
            raise UnreadableInput(running.describe_error(data, used, status, detail))
        rest, wanted = data[used:], detail
        if wanted > MAX_VALUE_BYTES:
            raise UnreadableInput(
                f"{source} cannot be read: its pickle has a value of {wanted:,} bytes at byte "
                f"{running.before:,}, too long for a memory snapshot. Write the snapshot again."
            )
        if not block:
            running.close()
            return running.build_tape(complete=False)


def choose_plain_run(function: Any, few: bool) -> Any:
    """A compiled function, or for few values the same in plain Python."""
    return getattr(function, "plain", function) if few else function


class _MachineState:
    """The machine's columns, and how much of them is used."""

    def __init__(self, source: str) -> None:
        self.source = source
        self._counts = np.zeros(9, np.int64)
        self._columns: dict[str, Array] = {
            "kind": np.zeros(machine.FIRST, np.uint8),
            "value": np.zeros(machine.FIRST, np.int64),
            "items": np.zeros(0, np.int32),
            "chunk_start": np.zeros(0, np.int64),
            "chunk_count": np.zeros(0, np.int64),
            "chunk_before": np.zeros(0, np.int32),
            "stack": np.zeros(0, np.int32),
            "marks": np.zeros(0, np.int64),
            "memo": np.zeros(0, np.int32),
            "arena": np.zeros(0, np.uint8),
            "texts": np.zeros(1, np.int64),
        }
        kind, value = self._columns["kind"], self._columns["value"]
        kind[: machine.SMALL] = machine.NONE, machine.FALSE, machine.TRUE
        kind[machine.SMALL :] = machine.INT
        value[machine.SMALL :] = np.arange(256)
        self._counts[machine.VALUES] = machine.FIRST
        self._quick = True

    @property
    def before(self) -> int:
        """The number of bytes that were run."""
        return int(self._counts[machine.BEFORE])

    def run(self, data: bytes) -> tuple[int, int, int]:
        """Run a block as far as possible: (number of bytes that were run, how it ended, a detail)."""
        self._reserve(len(data))
        step = choose_plain_run(machine.run, self.before + len(data) < FEW_BYTES)
        used, status, detail = step(np.frombuffer(data, np.uint8), len(data), self._counts, *self._columns.values())
        self._counts[machine.BEFORE] += used
        return int(used), int(status), int(detail)

    def _reserve(self, length: int) -> None:
        """Make room for the values that a block of that length can add."""
        counts = self._counts
        needed = {
            "kind": counts[machine.VALUES],
            "value": counts[machine.VALUES],
            "items": counts[machine.ITEMS] + counts[machine.STACK],
            "chunk_start": counts[machine.CHUNKS],
            "chunk_count": counts[machine.CHUNKS],
            "chunk_before": counts[machine.CHUNKS],
            "stack": counts[machine.STACK],
            "marks": counts[machine.MARKS],
            "memo": counts[machine.MEMO],
            "arena": counts[machine.ARENA],
            "texts": counts[machine.TEXTS] + 1,
        }
        for name, used in needed.items():
            column, room = self._columns[name], int(used) + length + 1
            if len(column) < room:
                # In place if the system can, because they are large.
                column.resize(max(room, len(column) * 9 // 8), refcheck=False)

    def describe_error(self, data: bytes, at: int, status: int, detail: int) -> str:
        """What is wrong with the pickle, in a sentence."""
        where = self.before
        if status == machine.REFUSED:
            name = next((op.name for op in pickletools.opcodes if op.code == chr(data[at])), "")
            what = f"the opcode {name}" if name else f"the unknown opcode 0x{data[at]:02x}"
            return NOT_PLAIN.format(source=self.source, what=what, at=where)
        reasons = {
            machine.UNDERFLOW: "it uses a value that does not exist",
            machine.UNKNOWN: f"it reads the memo entry {detail:,}, which does not exist",
            machine.TOO_FAR: f"it writes the memo entry {detail:,}, which is not the next",
            machine.MISPLACED: "it adds items to a value that is not a container",
            machine.TOO_NEW: f"it has protocol {detail}, and 5 is the newest known one",
            machine.TOO_MANY: "it has more than two billion values",
        }
        return (
            f"{self.source} cannot be read: its pickle is invalid at byte {where:,}: {reasons[status]}. Copy or "
            "write the snapshot again."
        )

    def close(self) -> None:
        """Add unfinished values to their containers, after a truncated pickle: the innermost container first."""
        counts, columns = self._counts, self._columns
        self._reserve(int(counts[machine.MARKS]) + 1)
        stack, kind = columns["stack"], columns["kind"]
        for mark in columns["marks"][: int(counts[machine.MARKS])][::-1].tolist():
            top = int(counts[machine.STACK])
            holder = int(stack[mark - 1]) if mark else -1
            count = top - mark
            if holder >= 0 and kind[holder] == machine.DICT:
                count -= count % 2
            if holder >= 0 and kind[holder] in (machine.LIST, machine.DICT) and count > 0:
                item, chunk = int(counts[machine.ITEMS]), int(counts[machine.CHUNKS])
                columns["items"][item : item + count] = stack[mark : mark + count]
                columns["chunk_start"][chunk], columns["chunk_count"][chunk] = item, count
                columns["chunk_before"][chunk] = columns["value"][holder]
                columns["value"][holder] = chunk
                counts[machine.ITEMS] += count
                counts[machine.CHUNKS] += 1
            counts[machine.STACK] = mark

    def build_tape(self, complete: bool) -> Tape:
        """The tape."""
        counts, columns = self._counts, self._columns
        top = int(counts[machine.STACK])
        root = int(columns["stack"][top - 1 if complete else 0]) if top else None
        for name in ("stack", "marks", "memo"):
            columns[name].resize(0, refcheck=False)
        values, chunks = int(counts[machine.VALUES]), int(counts[machine.CHUNKS])
        return Tape(
            kind=columns["kind"][:values],
            value=columns["value"][:values],
            items=columns["items"][: int(counts[machine.ITEMS])],
            chunk_start=columns["chunk_start"][:chunks],
            chunk_count=columns["chunk_count"][:chunks],
            chunk_before=columns["chunk_before"][:chunks],
            arena=columns["arena"][: int(counts[machine.ARENA])],
            texts=columns["texts"][: int(counts[machine.TEXTS]) + 1],
            root=root,
            complete=complete,
        )
