"""Conversion between a typed command line and argv, and between a value and one line of text.

Quoting is that of the POSIX shell, with `$'…'` (POSIX.1-2024, as in bash) for control characters and bytes that are
not UTF-8. Nothing is expanded, since no shell runs the command; syntax that only a shell would interpret is reported.
"""

import re
import shlex
from dataclasses import dataclass

from ...domain.errors import InvalidRequest
from ...domain.text import shorten

_PIECE = re.compile(
    r"""
      (?P<blank>[ \t\r\n]+)
    | (?P<continued>\\\r?\n)
    | (?P<escaped>\\(?s:.))
    | (?P<ansi>\$'(?:[^'\\]|\\(?s:.))*')
    | (?P<single>'[^']*')
    | (?P<double>"(?:[^"\\]|\\(?s:.))*")
    | (?P<open>\$?'|"|\\\Z)
    | (?P<operator>[|&;<>()`])
    | (?P<plain>[^ \t\r\n\\'"|&;<>()`$]+|\$)
    """,
    re.VERBOSE,
)
_DOUBLE_ESCAPE = re.compile(r'\\(?:\r?\n|(["\\$`]))')
_ANSI_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{1,2})|([0-7]{1,3})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|(?s:(.)))")
_ANSI = {"n": b"\n", "t": b"\t", "r": b"\r", "a": b"\a", "b": b"\b", "f": b"\f", "v": b"\v", "e": b"\x1b"}
_ANSI |= {"E": b"\x1b", "\\": b"\\", "'": b"'", '"': b'"', "?": b"?"}
_VARIABLE = re.compile(r"\$[A-Za-z0-9_{@*#?!$-]")
_NOT_BLANK = re.compile(r"\S{1,28}")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\x80-\x9f\u2028\u2029\ud800-\udfff]")
MAX_ARGUMENT_BYTES = 131_071
"""Bytes of one argument or variable: the kernel's MAX_ARG_STRLEN less the final zero."""


@dataclass(frozen=True)
class CommandLine:
    """argv, and sentences about likely mistakes that are valid."""

    argv: tuple[str, ...]
    hints: tuple[str, ...] = ()


def split(text: str) -> CommandLine:
    """The arguments of a command line.

    Raises InvalidRequest for an unclosed quote, a trailing backslash, and shell operators outside quotes.
    """
    words: list[str] = []
    word: str | None = None
    hints: dict[str, None] = {}
    for piece in _PIECE.finditer(text):
        kind, found = piece.lastgroup, piece.group()
        if kind == "blank":
            if word is not None:
                words.append(word)
            word = None
        elif kind == "open":
            raise InvalidRequest(_open_end(text, piece.start()))
        elif kind == "operator":
            raise InvalidRequest(
                f"“{found}” at “{_near(text, piece.start())}” needs a shell, but the command is started without one. "
                "Write sh -c '…' around the whole command, or quote the argument to pass it unchanged."
            )
        elif kind != "continued":
            _hint(hints, str(kind), found, text, piece.start(), first=word is None)
            word = (word or "") + _value(str(kind), found)
    if word is not None:
        words.append(word)
    if words and _ASSIGNMENT.match(text.lstrip()):
        hints["The first word sets a variable, which needs a shell. Enter the variable under Environment."] = None
    return CommandLine(tuple(words), tuple(hints))


def _value(kind: str, value: str) -> str:
    if kind == "escaped":
        return value[1]
    if kind == "single":
        return value[1:-1]
    if kind == "double":
        return _DOUBLE_ESCAPE.sub(lambda match: match.group(1) or "", value[1:-1])
    if kind == "ansi":
        return _ansi_value(value[2:-1])
    return value


def _hint(hints: dict[str, None], kind: str, found: str, text: str, at: int, *, first: bool) -> None:
    """Add a hint for characters of this part that a shell would expand."""
    unquoted = kind == "plain"
    here = (_NOT_BLANK.match(text, at) or [""])[0]
    variable = found == "$" and _VARIABLE.match(text, at)
    if (unquoted and variable) or (kind == "double" and _VARIABLE.search(re.sub(r"\\.", "", found))):
        name = here if unquoted else shorten(found, 29)
        hints[f"The variable in {name} is not expanded, as no shell runs the command. Write its value."] = None
    if unquoted and first and found.startswith("~"):
        hints[f"The ~ in {here} is not expanded, as no shell runs the command. Write the absolute path."] = None
    if unquoted and ("*" in found or "?" in found):
        hints[f"The pattern {here} is not expanded, as no shell runs the command. Write the names."] = None


def _near(text: str, position: int) -> str:
    """The text from a position on, shortened for a message."""
    return shorten(text[position:], 25).replace("\n", " ")


def _open_end(text: str, position: int) -> str:
    if text[position] == "\\":
        return "The last character is a backslash that escapes nothing. Remove it, or double it."
    name = "double" if text[position] == '"' else "single"
    quote = text[position]
    return (
        f"The {name} quote that opens at “{_near(text, position)}” is not closed. "
        f"Close it, or write \\{quote} for a literal character."
    )


def _ansi_value(text: str) -> str:
    parts: list[bytes] = []
    end = 0
    for match in _ANSI_ESCAPE.finditer(text):
        parts.append(text[end : match.start()].encode("utf-8", "surrogateescape"))
        end = match.end()
        hexadecimal, octal, short, long, letter = match.groups()
        if hexadecimal or octal:
            parts.append(bytes((int(hexadecimal, 16) if hexadecimal else int(octal, 8) & 0xFF,)))
        elif short or long:
            code = int(short or long, 16)
            if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
                raise InvalidRequest(f"{match.group()} is not a character. Use a code point up to 10ffff.")
            parts.append(chr(code).encode())
        else:
            parts.append(_ANSI.get(letter, b"\\" + letter.encode("utf-8", "surrogateescape")))
    parts.append(text[end:].encode("utf-8", "surrogateescape"))
    return b"".join(parts).decode("utf-8", "surrogateescape")


def _quote_ansi(value: str) -> str:
    names = {0x5C: "\\\\", 0x27: "\\'", 0x0A: "\\n", 0x0D: "\\r", 0x09: "\\t", 0x1B: "\\e"}

    def shown(character: str) -> str:
        code = ord(character)
        if code in names:
            return names[code]
        if not _CONTROL_CHARACTERS.match(character):
            return character
        # Octal escapes have a fixed length, so that a following digit is not a part of them.
        return "".join(f"\\{byte:03o}" for byte in character.encode("utf-8", "surrogateescape"))

    return "$'" + "".join(map(shown, value)) + "'"


def join(argv: tuple[str, ...]) -> str:
    """The command line that `split` converts to these arguments. Line breaks are kept inside single quotes."""
    return " ".join(_quote_ansi(word) if _CONTROL_CHARACTERS.search(word) else shlex.quote(word) for word in argv)


def format_value(value: str) -> str:
    """A value on one line: unchanged if possible, else `$'…'`."""
    special = _CONTROL_CHARACTERS.search(value) or "\n" in value or value.startswith("$'") or value != value.strip()
    return _quote_ansi(value) if special else value


def parse_value(line: str) -> str:
    """The value of a line, without blanks at its ends. Raises InvalidRequest for an unclosed `$'…`."""
    line = line.strip()
    if not line.startswith("$'"):
        return line
    piece = _PIECE.fullmatch(line)
    if piece is None or piece.lastgroup != "ansi":
        raise InvalidRequest(f"{_near(line, 0)} opens $'… but does not end with the closing quote. Add it.")
    return _ansi_value(line[2:-1])
