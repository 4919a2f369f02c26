"""Names of functions, loops and source files as HPCToolkit writes them, and how pages show them."""

import re

from ...domain.builder import ProfileBuilder
from ...domain.tables import NO_ID, FrameKind

_UNKNOWN = re.compile(r"<unknown procedure>(?: (0x[0-9a-f]{1,16}))?")
_UNKNOWN_FILES = re.compile(r"<unknown file>.*|~unknown-file~.*|\[.*\]|", re.DOTALL)
_ENTRIES = ("<program root>", "<thread root>", "<partial call paths>")
_COPIED = re.compile(r"\./src/(.+)", re.DOTALL)


def parse_file(path: str) -> str | None:
    """The path of a source file where it was compiled; None if it is not known. The database has copies in ./src/."""
    if _UNKNOWN_FILES.fullmatch(path):
        return None
    if match := _COPIED.fullmatch(path):
        return f"/{match[1]}" if "/" in match[1] else match[1]
    return path


class CodeNames:
    """Interns functions and files of one database."""

    def __init__(self, builder: ProfileBuilder) -> None:
        self._builder = builder
        self._files: dict[str, int] = {}
        self._kinds: dict[int, FrameKind] = {}

    def number_file(self, path: str) -> int:
        """The number of a source file, -1 if it is not known."""
        if _UNKNOWN_FILES.fullmatch(path):
            return NO_ID
        return self._files.setdefault(path, len(self._files))

    def get_kind(self, function: int) -> FrameKind | None:
        """The kind of the frames of a function, if its name says it."""
        return self._kinds.get(function)

    def intern_function(self, name: str, module: str, path: str, start_line: int) -> int:
        """The builder's function with this name and module."""
        name, display = _split_name(name, module)
        function = self._builder.intern_function(name, module, parse_file(path), start_line or None, display)
        if display is not None:
            self._kinds[function] = FrameKind.UNKNOWN
        elif name in _ENTRIES:
            self._kinds[function] = FrameKind.RUNTIME
        return function

    def intern_loop(self, name: str, module: str, path: str, line: int) -> int:
        """The function of a loop in the function `name`: "loop at cpi.c:47"; without a line "loop in main"."""
        file = parse_file(path)
        if file and line:
            return self._builder.intern_function(f"loop at {file.rsplit('/', 1)[-1]}:{line}", module, file, line)
        inside, display = _split_name(name, module)
        return self._builder.intern_function(f"loop in {display or inside or 'unknown procedure'}", module, file, None)


def _split_name(name: str, module: str) -> tuple[str, str | None]:
    """A name without the module, which HPCToolkit appends to names from symbol tables ("malloc [libc.so.6]"); and how
    pages show an unknown name."""
    base = module.rsplit("/", 1)[-1]
    name = name.removesuffix(f" [{base}]") if base else name
    if match := _UNKNOWN.fullmatch(name):
        return name, f"[{base or 'unknown'}]" + (f" {match[1]}" if match[1] else "")
    return name, None
