"""Which files are source code, and their texts."""

from pathlib import PurePosixPath

SUFFIXES = frozenset(
    (
        *(".c", ".cc", ".cpp", ".cxx", ".c++", ".h", ".hh", ".hpp", ".hxx", ".h++", ".inc", ".inl"),
        *(".ipp", ".tcc", ".def", ".s", ".asm", ".rs", ".go", ".f", ".for", ".f77", ".f90", ".f95"),
        *(".f03", ".f08", ".d", ".zig", ".nim", ".swift", ".m", ".mm", ".adb", ".ads", ".pas", ".cu"),
        *(".cuh", ".cl", ".ml", ".hs", ".v", ".cr", ".y", ".l", ".py", ".pyx", ".java", ".kt"),
        *(".jl", ".ispc", ".js", ".mjs", ".cjs", ".ts", ".tsx", ".scala", ".groovy", ".clj"),
    )
)
"""Files with other names may be anything. The headers of the C++ library have none."""
NOT_SOURCE = "Its name is not that of source code."
_HEADER_FOLDERS = ("/include/c++/", "/include/bits/")


def is_source_name(path: str) -> bool:
    """Whether a file with this path is source code."""
    return PurePosixPath(path).suffix.lower() in SUFFIXES or any(folder in path for folder in _HEADER_FOLDERS)


def decode_source(data: bytes) -> str:
    """Source code as text: UTF-8 or UTF-16 with a byte order mark, else UTF-8, else Latin-1. Control characters other
    than tabs and line breaks are replaced."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        text = data.decode("utf-16", errors="replace")
    else:
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError:
            text = data.decode("latin-1")
    return text.replace("\r\n", "\n").translate(_CONTROL)


_CONTROL: dict[int, str] = dict.fromkeys((*range(9), 11, 12, *range(14, 32), 127), "\ufffd") | {13: "\n"}
