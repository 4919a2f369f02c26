"""experiment.xml of database versions 2 and 3: metrics, names and the tree of calling contexts.

Definition: doc/dtd/hpc-experiment.dtd of HPCToolkit. Elements of the tree: PF a procedure that was called, Pr an
inlined one, L a loop, C a call site, S a statement, and M a value. Each has an id `i`: its row in the metric-db files.

The parser is expat without a handler for external entities, so it opens no other file. Documents that declare entities
are refused: HPCToolkit declares none.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from xml.parsers import expat

from ...domain.builder import ProfileBuilder
from ...domain.errors import UnreadableInput
from ...domain.tables import NO_ID, FrameKind
from ...ingest.perf_text.grammar import classify_frame
from .contexts import LINE, LOOP, PROCEDURE, ContextTree, make_tree
from .format import INVALID_ELEMENT, MAX_NAME_CHARS
from .prefixed_stream import PrefixedStream
from .symbols import CodeNames

CHUNK_BYTES = 1 << 20
MAX_DEFAULT_CHARS = 100
"""Of a default that the document declares for an attribute, and that is added to each element."""
TREE = "SecCallPathProfileData"
INCLUSIVE, EXCLUSIVE = "inclusive", "exclusive"
_STATISTIC = re.compile(r"(.+?):(Sum|Mean|StdDev|CfVar|Min|Max)$", re.DOTALL)
_SCOPE = re.compile(r"(.+?) *\((?:I|E)\)$", re.DOTALL)
_NUMBER = re.compile(r"[0-9]{1,9}", re.ASCII)
_TABLES = {"LoadModule": "modules", "File": "files", "Procedure": "procedures"}


@dataclass(frozen=True)
class MetricColumn:
    """A metric of the document. name: without (I) and (E). scope: INCLUSIVE or EXCLUSIVE. column: in a metric-db file;
    of sums over all threads the number in M elements."""

    name: str
    scope: str
    column: int


@dataclass(eq=False)
class Experiment:
    """The content of a document. thread_metrics: in metric-db files. sum_metrics: in `values`, which has the value of
    each row of the tree. reasons: why it is incomplete."""

    tree: ContextTree
    title: str = ""
    version: str = ""
    thread_metrics: list[MetricColumn] = field(default_factory=list)
    sum_metrics: list[MetricColumn] = field(default_factory=list)
    values: dict[int, dict[int, float]] = field(default_factory=dict)
    reasons: tuple[str, ...] = ()


def read_experiment(stream: PrefixedStream, builder: ProfileBuilder, source: str, with_sums: bool) -> Experiment:
    """The content of an experiment.xml. `source` names it in messages. with_sums: also the sums over all threads.

    Raises UnreadableInput if it has no calling contexts, or declares entities.
    """
    parser = _Parser(builder, source, with_sums)
    reasons = []
    try:
        while data := stream.read(CHUNK_BYTES):
            parser.expat.Parse(data, False)
        parser.expat.Parse(b"", True)
    except expat.ExpatError as error:
        what = expat.ErrorString(error.code)
        reasons.append(f"{source} is damaged or truncated at line {error.lineno:,}: {what}. Copy it again.")
    return parser.finish(tuple(reasons))


class _Parser:
    def __init__(self, builder: ProfileBuilder, source: str, with_sums: bool) -> None:
        self._builder = builder
        self._source = source
        self._with_sums = with_sums
        self._names = CodeNames(builder)
        self._tables: dict[str, dict[str, str]] = {"modules": {}, "files": {}, "procedures": {}}
        self._rows: list[tuple[int, ...]] = []
        self._ids: set[int] = set()
        # The row, procedure, module and file of each open element of the tree.
        self._open: list[tuple[int, str, str, str]] = []
        self._in_tree = False
        self.content = Experiment(make_tree([]))
        self._invalid: tuple[int, str] = (0, "")
        self.expat = expat.ParserCreate()
        self.expat.buffer_text = True
        self.expat.StartElementHandler = self._start
        self.expat.EndElementHandler = self._end
        self.expat.EntityDeclHandler = self._refuse_entity
        self.expat.AttlistDeclHandler = self._check_default
        self._starts: dict[str, Callable[[dict[str, str]], None]] = {
            "HPCToolkitExperiment": self._start_document,
            "Header": self._start_header,
            "MetricDB": self._add_thread_metric,
            "Metric": self._add_sum_metric,
        }
        self._contexts: dict[str, Callable[[dict[str, str]], None]] = {
            "M": self._add_value,
            **dict.fromkeys(("PF", "Pr"), self._start_procedure),
            "L": self._start_loop,
            **dict.fromkeys(("C", "S"), self._start_line),
        }

    def finish(self, reasons: tuple[str, ...]) -> Experiment:
        if not self._rows:
            why = f" {reasons[0]}" if reasons else ""
            raise UnreadableInput(
                f"{self._source} has no calling contexts.{why} Make the database with hpcprof, and import its files."
            )
        count, example = self._invalid
        if count:
            self._builder.add_loss(INVALID_ELEMENT, example, count)
        content = self.content
        content.tree = make_tree(self._rows)
        content.reasons = reasons
        return content

    def _refuse_entity(self, *_: object) -> None:
        raise UnreadableInput(
            f"{self._source} declares XML entities, which no version of HPCToolkit does. It is not read. Import the "
            "file as hpcprof wrote it."
        )

    def _check_default(self, _element: str, _name: str, _kind: str, default: str | None, _required: bool) -> None:
        if default is not None and len(default) > MAX_DEFAULT_CHARS:
            raise UnreadableInput(
                f"{self._source} declares a default of {len(default):,} characters for an attribute, which no version "
                "of HPCToolkit does. It is not read. Import the file as hpcprof wrote it."
            )

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        if self._in_tree:
            if start := self._contexts.get(tag):
                start(attributes)
        elif start := self._starts.get(tag):
            start(attributes)
        elif tag == TREE:
            self._in_tree = True
        elif (table := _TABLES.get(tag)) and "i" in attributes:
            self._tables[table][attributes["i"]] = attributes.get("n", "")[:MAX_NAME_CHARS]

    def _end(self, tag: str) -> None:
        if tag == TREE:
            self._in_tree = False
        elif self._in_tree and tag != "M" and tag in self._contexts:
            self._open.pop()

    def _start_document(self, attributes: dict[str, str]) -> None:
        self.content.version = attributes.get("version", "")[:20]

    def _start_header(self, attributes: dict[str, str]) -> None:
        self.content.title = attributes.get("n", "")[:MAX_NAME_CHARS]

    def _add_thread_metric(self, attributes: dict[str, str]) -> None:
        column = _parse_number(attributes.get("db-id") or attributes.get("i", ""))
        if column is not None and (scope := _get_scope(attributes)):
            self.content.thread_metrics.append(MetricColumn(_plain_name(attributes), scope, column))

    def _add_sum_metric(self, attributes: dict[str, str]) -> None:
        number = _parse_number(attributes.get("i", "")) if self._with_sums else None
        name = _plain_name(attributes)
        statistic = _STATISTIC.fullmatch(name)
        if number is None or not (scope := _get_scope(attributes)) or (statistic and statistic[2] != "Sum"):
            return
        self.content.sum_metrics.append(MetricColumn(statistic[1] if statistic else name, scope, number))
        self.content.values[number] = {}

    def _add_value(self, attributes: dict[str, str]) -> None:
        number = _parse_number(attributes.get("n", ""))
        values = self.content.values.get(number) if number is not None else None
        if values is None or not self._open or (row := self._open[-1][0]) < 0:
            return
        try:
            values[row] = float(attributes.get("v", ""))
        except ValueError:
            values[row] = float("nan")

    def _start_procedure(self, attributes: dict[str, str]) -> None:
        name = self._look_up("procedures", attributes.get("n", ""))
        above = self._open[-1] if self._open else (NO_ID, "", "", "")
        module = self._look_up("modules", attributes["lm"]) if "lm" in attributes else above[2]
        file = self._look_up("files", attributes["f"]) if "f" in attributes else above[3]
        start_line = _parse_line(attributes)
        if not name:
            # A procedure without a name groups lines.
            self._push(attributes, LINE, NO_ID, FrameKind.USER, file, start_line, above[1], module)
            return
        function = self._names.intern_function(name, module, file, start_line)
        kind = self._names.get_kind(function) or classify_frame(name, module)
        if attributes.get("a") == "1":
            kind = FrameKind.INLINED
        self._push(attributes, PROCEDURE, function, kind, file, 0, name, module)

    def _start_loop(self, attributes: dict[str, str]) -> None:
        _, name, module, above_file = self._open[-1] if self._open else (NO_ID, "", "", "")
        file = self._look_up("files", attributes["f"]) if "f" in attributes else above_file
        line = _parse_line(attributes)
        function = self._names.intern_loop(name, module, file, line)
        self._push(attributes, LOOP, function, FrameKind.USER, file, line, name, module)

    def _start_line(self, attributes: dict[str, str]) -> None:
        _, name, module, above_file = self._open[-1] if self._open else (NO_ID, "", "", "")
        file = self._look_up("files", attributes["f"]) if "f" in attributes else above_file
        self._push(attributes, LINE, NO_ID, FrameKind.USER, file, _parse_line(attributes), name, module)

    def _push(
        self,
        attributes: dict[str, str],
        kind: int,
        function: int,
        frame_kind: FrameKind,
        file: str,
        line: int,
        name: str,
        module: str,
    ) -> None:
        """Add a context below the open one. One with an invalid id stays in the tree, without values."""
        parent = self._open[-1][0] if self._open else NO_ID
        id = _parse_number(attributes.get("i", ""))
        row = len(self._rows)
        if id is None or id in self._ids:
            self._invalid = (self._invalid[0] + 1, self._invalid[1] or f"i={attributes.get('i', '')[:40]!r}")
            id = NO_ID - row - 1
        self._ids.add(id)
        number = self._names.number_file(file)
        self._rows.append((id, parent, kind, function, int(frame_kind), number, line, NO_ID))
        self._open.append((row, name, module, file))

    def _look_up(self, table: str, key: str) -> str:
        """The text of an id of a table; in version 1 the text itself."""
        return self._tables[table].get(key, key[:MAX_NAME_CHARS])


def _plain_name(attributes: dict[str, str]) -> str:
    name = attributes.get("n", "")[:MAX_NAME_CHARS]
    match = _SCOPE.fullmatch(name)
    return match[1] if match else name


def _get_scope(attributes: dict[str, str]) -> str | None:
    scope = attributes.get("t", "")
    return scope if scope in (INCLUSIVE, EXCLUSIVE) else None


def _parse_number(text: str) -> int | None:
    return int(text) if _NUMBER.fullmatch(text) else None


def _parse_line(attributes: dict[str, str]) -> int:
    """The line of `l`, the first of a range; 0 if it is not known."""
    return _parse_number(attributes.get("l", "").partition("-")[0]) or 0
