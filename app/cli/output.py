"""Output of tables: aligned text, CSV, JSON and Parquet.

Every command imports this; what only some outputs need is imported with them.
"""

import io
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO

import click

from ..domain.csv_cells import escape_csv_cell
from ..domain.errors import InvalidRequest, Unavailable
from ..domain.event_names import SHARES_ONLY
from ..paths import os_error_text

if TYPE_CHECKING:
    from ..analysis.core.schema import TableRows
    from ..domain.selection import Selection

STDIO = "-"
"""Standard input or output instead of a file."""
FORMATS = ("table", "csv", "json")
PARQUET = "parquet"
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def warn_sampled_only(rows: "TableRows", value: str) -> None:
    """Print on standard error the events whose samples give only shares: those without `value`."""
    pairs = zip(rows.column("event"), rows.column(value), strict=True)
    warn_shares_only(dict.fromkeys(event for event, number in pairs if number is None))


def warn_shares_only(events: Iterable[str]) -> None:
    """Warn on standard error that samples of these events give shares but no absolute values."""
    for event in events:
        click.echo(f"perfloom: {event}: {SHARES_ONLY}", err=True)


def write_table(
    title: str,
    rows: "TableRows",
    output_format: str,
    output: str,
    selection: "Selection",
    *,
    single: bool = False,
    affected: bool = False,
) -> None:
    """Write the rows of a table to `output` in the format `output_format`. affected: whether a part of the recording
    was not read, which JSON objects then contain. Raises Unavailable if it cannot be written."""
    from ..analysis.core.loss_impact import mark_affected_rows

    names = [column.name for column in rows.columns]
    marks_rows = affected and output_format == "json"
    if output_format != PARQUET and output == STDIO:
        write_rows(names, mark_affected_rows(rows.records(), marks_rows), output_format, single=single, fit=True)
        return
    with open_output(output) as file:
        if output_format == PARQUET:
            from ..exporters.table_formats import TABLE_FORMATS, table_metadata

            for piece in TABLE_FORMATS[output_format].write_chunks(
                rows.to_frame(), rows.columns, table_metadata(title, selection.to_query(), is_affected=affected)
            ):
                file.write(piece)
            return
        text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
        write_rows(names, mark_affected_rows(rows.records(), marks_rows), output_format, single=single, out=text)
        text.detach()


def refuse_terminal(output_format: str, output: str) -> None:
    """Raises UsageError for binary output to a terminal."""
    if output_format == PARQUET and output == STDIO and sys.stdout.isatty():
        raise click.UsageError(f"{output_format} cannot be written to a terminal: name a file with -o.")


def write_rows(
    columns: Sequence[str],
    rows: Sequence[dict[str, Any]],
    output_format: str,
    *,
    single: bool = False,
    fit: bool = False,
    out: TextIO | None = None,
) -> None:
    """Write a table to `out`, else to standard output, in the format `output_format`. single: write its only row as one
    JSON object. fit: on a terminal, shorten texts to its width."""
    out = out or sys.stdout
    if output_format == "json":
        _json(rows, single, out)
    elif output_format == "csv":
        import csv

        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([escape_csv_cell(row[name]) for name in columns] for row in rows)
    elif single and rows:
        _write_aligned(["field", "value"], [{"field": name, "value": rows[0][name]} for name in columns], out)
    else:
        _write_aligned(columns, rows, out, fit=fit)


def _json(rows: Sequence[dict[str, Any]], single: bool, out: TextIO) -> None:
    import json

    if single:
        out.write(json.dumps(rows[0], indent=1) + "\n")
        return
    out.write("[")
    for number, row in enumerate(rows):
        out.write((",\n " if number else "\n ") + json.dumps(row))
    out.write("\n]\n")


def _write_aligned(columns: Sequence[str], rows: Sequence[dict[str, Any]], out: TextIO, *, fit: bool = False) -> None:
    from .aligned_table import align

    cells = [[_cell(row[name]) for name in columns] for row in rows]
    numeric = [
        all(isinstance(row[name], int | float) or row[name] is None for row in rows) and bool(rows) for name in columns
    ]
    width = shutil.get_terminal_size().columns if fit and out.isatty() else None
    lines, hidden = align(columns, cells, numeric, width)
    out.writelines(line + "\n" for line in lines)
    if hidden:
        click.echo(
            f"perfloom: Left out, because the terminal has {width} columns: {', '.join(hidden)}. "
            "--format csv has all of them.",
            err=True,
        )


def _cell(value: Any) -> str:
    """A value as text for a terminal. Control characters are escaped, because names are untrusted."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        if value.is_integer() and abs(value) < 1e15:
            return f"{value:.0f}"
        return f"{value:.2f}" if abs(value) >= 0.05 else f"{value:.2g}"
    if isinstance(value, list | tuple):
        value = ", ".join(map(str, value))
    return escape_controls(str(value))


def escape_controls(text: str, *, lines: bool = False) -> str:
    """A text with escaped control characters, for a terminal. lines: keep line breaks."""
    if lines:
        return "\n".join(escape_controls(line) for line in text.split("\n"))
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def write_settings(text: str, output: str) -> None:
    """Write settings for exchange to a file, or to standard output. Raises InvalidRequest."""
    if output == STDIO:
        sys.stdout.write(text)
        return
    try:
        Path(output).write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidRequest(f"The file {output!r} cannot be written: {os_error_text(error)}.", "output") from None


def read_settings(file: str, most: int) -> bytes:
    """The content of a file of settings, or of standard input: at most one byte more than `most`. Raises
    InvalidRequest."""
    try:
        if file == STDIO:
            return sys.stdin.buffer.read(most + 1)
        with open(file, "rb") as stream:
            return stream.read(most + 1)
    except OSError as error:
        raise InvalidRequest(f"The file {file!r} cannot be read: {os_error_text(error)}.", "file") from None


@contextmanager
def open_output(output: str, compressed: bool = False) -> Iterator[BinaryIO]:
    """A file that is replaced atomically; compressed according to the end of its name: .gz, .zst or .xz.

    compressed: the data is already compressed. Raises Unavailable.
    """
    with _plain(output) as file:
        name = output.lower()
        if not compressed and name.endswith(".gz"):
            import gzip

            with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packer:
                yield packer  # type: ignore[misc]
        elif not compressed and name.endswith(".xz"):
            import lzma

            with lzma.LZMAFile(file, "wb") as xz_packer:
                yield xz_packer  # type: ignore[misc]
        elif not compressed and name.endswith(".zst"):
            import zstandard

            with zstandard.ZstdCompressor(write_checksum=True).stream_writer(file, closefd=False) as zstd_packer:
                yield zstd_packer
        else:
            yield file


@contextmanager
def _plain(output: str) -> Iterator[BinaryIO]:
    """The file without compression."""
    if output == STDIO:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    path = Path(output)
    if path.exists() and not path.is_file():
        # A device or pipe is written directly.
        with open(path, "wb") as device:
            yield device
        return
    temporary: Path | None = None
    try:
        import tempfile

        with tempfile.NamedTemporaryFile("wb", dir=path.parent, prefix=f".{path.name[:40]}-", delete=False) as file:
            temporary = Path(file.name)
            yield file  # type: ignore[misc]
        umask = os.umask(0o077)
        os.umask(umask)
        temporary.chmod(path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~umask)
        temporary.replace(path)
        temporary = None
    except OSError as error:
        raise Unavailable(f"{path} cannot be written: {error.strerror}. Check the path and the disk.") from None
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
