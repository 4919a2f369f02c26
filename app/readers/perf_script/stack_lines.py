"""The frames of the lines of stacks in perf script's text, each parsed once."""

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...domain.arrays import Int64Array
from ...domain.tables import FrameKind
from ...ingest.perf_text.grammar import (
    ScriptFrame,
    classify_frame,
    is_inlined,
    parse_frame,
    parse_header,
    parse_simple_frame,
    parse_source_line,
    split_address,
    split_inlined,
)
from ...ingest.perf_text.script_builder import ThreadedProfileBuilder
from .sample_lines import StackLine

SPECIAL = -1
"""Instead of a frame, for a line with more or less than one."""
_PLAIN_LINES = re.compile(
    rb"(?:\t[ \t]*([0-9a-f]{1,16}) ([^()\t\n]+?)(?:\+0x([0-9a-f]{1,16}))? (\([^()\t\n]*\))|[^\n]*)\n"
)
"""Lines; of those without other parentheses: address, function, offset if it is there, and module."""


class StackLines:
    """The lines of stacks of one text (bytes with their line ends). builder: gets their frames."""

    def __init__(self, builder: ThreadedProfileBuilder) -> None:
        self._builder = builder
        self._frames: dict[bytes, int] = {}
        self._lines: dict[bytes, StackLine | None] = {}
        self._functions: dict[tuple[bytes, bytes, bool], tuple[int, FrameKind, int | None] | None] = {}

    def intern(self, line: bytes) -> int:
        """The frame of a line; SPECIAL for more or less than one."""
        known = self._frames.get(line)
        if known is None:
            known = self._frames[line] = self._intern_new(line)
        return known

    def intern_many(self, lines: Sequence[bytes]) -> Int64Array:
        """The frames of several lines, which differ."""
        known = list(map(self._frames.get, lines))
        new = [line for line, frame in zip(lines, known, strict=True) if frame is None]
        # One search for all of them takes a third of the time of parsing each.
        found = iter(
            [self._intern_parts(*parts) for parts in zip(new, _PLAIN_LINES.findall(b"".join(new)), strict=True)]
        )
        return np.array([next(found) if frame is None else frame for frame in known], np.int64)

    def describe(self, line: bytes) -> StackLine | None:
        """The meaning of a line; None if it is invalid."""
        self.intern(line)
        if line not in self._lines:
            frame = parse_frame(line[:-1])
            self._lines[line] = None if frame is None else StackLine(frame)
        return self._lines[line]

    def intern_stack(self, lines: Sequence[bytes]) -> int:
        """The stack of consecutive lines; -1 if one of them is no part of a stack."""
        frames: list[int] = []
        source: int | None = None
        module, depth = "inlined", 0
        for line in reversed(lines):
            known = self.intern(line)
            about = self.describe(line)
            if about is None:
                return -1
            if about.place is not None:
                source = about.place or None
                continue
            frame = about.frame
            if is_inlined(frame.module):
                depth += 1
                frames.append(self._intern_inlined(frame.symbol, module, depth, source, frame.address, frame.offset))
            else:
                module, depth = frame.module, 0
                if about.chain:
                    frames.append(self._intern_frame(replace(frame, symbol=about.chain[0]), source))
                    # Their address is that of the first; without their own line numbers they share its line.
                    for depth, symbol in enumerate(about.chain[1:], start=1):
                        frames.append(self._intern_inlined(symbol, module, depth, None, None, frame.offset))
                else:
                    frames.append(known if source is None else self._intern_frame(frame, source))
            source = None
        return self._builder.intern_stack(frames)

    def _intern_parts(self, line: bytes, parts: tuple[bytes, bytes, bytes, bytes]) -> int:
        """The frame of a new line. parts: as `_PLAIN_LINES` finds them."""
        address, name, offset, module = parts
        place = self._find_function(name, module, bool(offset)) if address else None
        if place is None:
            return self.intern(line)
        function, kind, own_offset = place
        frame = self._frames[line] = self._builder.intern_frame(
            function, kind=kind, address=int(address, 16), symbol_offset=int(offset, 16) if offset else own_offset
        )
        return frame

    def _find_function(self, name: bytes, module: bytes, has_offset: bool) -> tuple[int, FrameKind, int | None] | None:
        """(function, kind of code, offset without another one) by the texts before and after an offset; None if they
        are not one function."""
        key = name, module, has_offset
        if key not in self._functions:
            simple = parse_simple_frame(b"%b%b %b" % (name, b"+0x0" if has_offset else b"", module))
            self._functions[key] = None
            if simple is not None:
                symbol, offset, label, kind = simple
                self._functions[key] = self._builder.intern_function(symbol, label), kind, offset
        return self._functions[key]

    def _intern_new(self, line: bytes) -> int:
        bare = line[:-1]
        place = split_address(bare)
        if place is not None and (simple := parse_simple_frame(place[1])) is not None:
            symbol, offset, module, kind = simple
            function = self._builder.intern_function(symbol, module)
            return self._builder.intern_frame(function, kind=kind, address=place[0], symbol_offset=offset)
        header = parse_header(bare) if bare[:1] == b" " else None
        frame = None if header and header.certain else parse_frame(bare)
        if frame is None:
            number = None if header and header.certain else parse_source_line(bare)
            self._lines[line] = None if number is None else StackLine(ScriptFrame(None, "", None, ""), place=number)
            return SPECIAL
        chain = split_inlined(frame.symbol, frame.module)
        if len(chain) > 1 or is_inlined(frame.module):
            self._lines[line] = StackLine(frame, tuple(chain) if len(chain) > 1 else ())
            return SPECIAL
        self._lines[line] = StackLine(frame)
        return self._intern_frame(frame)

    def _intern_frame(self, frame: ScriptFrame, line: int | None = None) -> int:
        return self._builder.intern_frame(
            self._builder.intern_function(frame.symbol, frame.module),
            kind=classify_frame(frame.symbol, frame.module),
            address=frame.address,
            symbol_offset=frame.offset,
            line=line,
        )

    def _intern_inlined(
        self, symbol: str, module: str, depth: int, line: int | None, address: int | None, offset: int | None
    ) -> int:
        return self._builder.intern_frame(
            self._builder.intern_function(symbol, module),
            kind=FrameKind.INLINED,
            address=address,
            symbol_offset=offset,
            line=line,
            inline_depth=min(depth, 2**15 - 1),
        )
