"""A small database of HPCToolkit in both kinds of files, written from their documentation: doc/FORMATS.md (version 4)
and doc/dtd/hpc-experiment.dtd (version 2). `python -m tests.support.hpctoolkit.made` writes tests/data/hpctoolkit."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from xml.sax.saxutils import quoteattr

from tests.support import paths

DATA = paths.DATA / "hpctoolkit"
APP, MPI = "/home/user/app", "/usr/lib/libmpi.so.40"
SOURCE = "/home/user/app.c"
METRICS = ("CPUTIME (sec)", "PAPI_TOT_CYC")
FIRST_HEADER = (
    '<?xml version="1.0"?>\n<!DOCTYPE HPCToolkitExperiment [\n<!ELEMENT Info (NV*)>\n<!ATTLIST Pr a (1|0) "0">\n]>\n'
)


@dataclass(frozen=True)
class Node:
    """A context. kind: entry, procedure, inlined, loop, line or instruction. own: its values, for each thread the CPU time
    in units of 5 ms; there are 15 million cycles in one."""

    kind: str
    name: str = ""
    line: int = 0
    module: str = APP
    children: tuple[Node, ...] = ()
    own: tuple[int, ...] = (0, 0, 0, 0)

    @property
    def file(self) -> str:
        return SOURCE if self.module == APP else f"[{self.module.rsplit('/', 1)[-1]}]"


THREADS = ((0, 0), (0, 1), (1, 0), (1, 1))
"""Rank and thread."""


def _line(line: int, *children: Node, own: tuple[int, ...] = (0, 0, 0, 0), module: str = APP) -> Node:
    return Node("line", "", line, module, children, own)


SOLVE = Node(
    *("procedure", "solve", 8, APP),
    children=(
        _line(9, own=(2, 0, 1, 0)),
        Node(
            *("loop", "", 10, APP),
            children=(
                _line(11, own=(30, 20, 41, 22)),
                _line(
                    *(
                        12,
                        Node("inlined", "axpy", 3, APP, (_line(4, own=(50, 45, 60, 44)), _line(5, own=(3, 0, 0, 1)))),
                    ),
                    own=(4, 1, 0, 2),
                ),
            ),
        ),
    ),
)
ALLREDUCE = Node(
    *("procedure", "PMPI_Allreduce [libmpi.so.40]", 0, MPI),
    children=(
        _line(
            0,
            Node(
                "procedure",
                "<unknown procedure> 0x4c9 [libmpi.so.40]",
                0,
                MPI,
                (_line(0, own=(60, 0, 9, 0), module=MPI),),
            ),
            own=(1, 0, 2, 0),
            module=MPI,
        ),
    ),
)
TREE = (
    Node(
        *("entry", "main thread"),
        children=(
            Node(
                *("procedure", "main", 20, APP),
                children=(
                    _line(21, own=(1, 0, 1, 0)),
                    Node("loop", "", 22, APP, (_line(23, SOLVE), _line(24, ALLREDUCE))),
                ),
            ),
        ),
    ),
    Node(
        *("entry", "application thread"),
        children=(Node("instruction", "", 0x1A86D, MPI, (SOLVE,), (0, 7, 0, 5)),),
    ),
)
"""SOLVE runs in the main thread of each rank, and in its other thread. The values of the one are not those of the other:
see `values_of`."""


def is_in_main_thread(thread: int) -> bool:
    return THREADS[thread][1] == 0


@dataclass(frozen=True)
class Row:
    """A context in preorder. id: ctxId of version 4. own: in units, for each thread."""

    id: int
    parent: int
    node: Node
    own: tuple[int, ...]


def rows() -> list[Row]:
    """The contexts, with the values only of the threads that have them there."""
    found: list[Row] = []

    def add(node: Node, parent: int, main: bool) -> None:
        own = tuple(units if is_in_main_thread(thread) == main else 0 for thread, units in enumerate(node.own))
        found.append(Row(3 * len(found) + 2, parent, node, own))
        here = len(found) - 1
        for child in node.children:
            add(child, here, main)

    for root in TREE:
        add(root, -1, root.name == "main thread")
    return found


def inclusive(found: list[Row], function_only: bool = False) -> list[list[int]]:
    """For each context the units of each thread with those below it; function_only: below it in the same function."""
    sums = [list(row.own) for row in found]
    for at in range(len(found) - 1, -1, -1):
        row = found[at]
        if row.parent >= 0 and (not function_only or row.node.kind in ("loop", "line")):
            sums[row.parent] = [a + b for a, b in zip(sums[row.parent], sums[at], strict=True)]
    return sums


def in_unit(units: int, metric: int) -> float:
    """Units of own values as the metric has them: seconds, or cycles."""
    return (units * 5 / 1000, units * 15_000_000.0)[metric]


class _Writer:
    """Bytes with aligned structures whose places are known before their contents."""

    def __init__(self) -> None:
        self.data = bytearray()

    def align(self) -> int:
        self.data += bytes(-len(self.data) % 8)
        return len(self.data)

    def put(self, content: bytes) -> int:
        at = len(self.data)
        self.data += content
        return at


def meta_db() -> bytes:
    """meta.db."""
    found = rows()
    file = _Writer()
    file.put(b"HPCTOOLKITmeta\x04\x00" + bytes(16 * 8))
    sections: dict[int, tuple[int, int]] = {}

    def end(number: int, start: int) -> None:
        sections[number] = (len(file.data) - start, start)

    start = file.align()
    file.put(struct.pack("<QQ", start + 16, start + 20) + b"app\0" + b"Made for tests.\0")
    end(0, start)
    start = file.align()
    names = [b"SUMMARY\0", b"NODE\0", b"RANK\0", b"THREAD\0"]
    places = [start + 16 + 8 * len(names) + sum(map(len, names[:at])) for at in range(len(names))]
    file.put(struct.pack("<QB7x", start + 16, len(names)) + struct.pack("<4Q", *places) + b"".join(names))
    end(1, start)
    start = file.align()
    scopes = (("point", 1, 255), ("function", 3, 0), ("lex_aware", 0, 255), ("execution", 2, 255))
    scopes_at = start + 32
    metrics_at = scopes_at + 16 * 4
    values_at = metrics_at + 32 * len(METRICS)
    texts_at = values_at + 16 * 4 * len(METRICS)
    texts = [name.encode() + b"\0" for name, _, _ in scopes] + [name.encode() + b"\0" for name in METRICS]
    text_places = [texts_at + sum(map(len, texts[:at])) for at in range(len(texts))]
    file.put(struct.pack("<QIBBBBQHB5x", metrics_at, len(METRICS), 32, 16, 24, 0, scopes_at, 4, 16))
    for number, (_, kind, bit) in enumerate(scopes):
        file.put(struct.pack("<QBB6x", text_places[number], kind, bit))
    for number in range(len(METRICS)):
        file.put(struct.pack("<QQQHHI", text_places[4 + number], values_at + 64 * number, 0, 4, 0, 0))
    for number in range(4 * len(METRICS)):
        file.put(struct.pack("<QH6x", scopes_at + 16 * (number % 4), number))
    file.put(b"".join(texts))
    end(2, start)
    start = file.align()
    strings = {}
    for text in (APP, MPI, f"src{SOURCE}", "[libmpi.so.40]", *(row.node.name for row in found if row.node.name)):
        if text not in strings:
            strings[text] = file.put(text.encode() + b"\0")
    end(4, start)
    start = file.align()
    file.put(struct.pack("<QIH2x", start + 16, 2, 16))
    modules = {path: file.put(struct.pack("<IIQ", 0, 0, strings[path])) for path in (APP, MPI)}
    end(5, start)
    start = file.align()
    file.put(struct.pack("<QIH2x", start + 16, 2, 16))
    files = {
        SOURCE: file.put(struct.pack("<IIQ", 1, 0, strings[f"src{SOURCE}"])),
        "[libmpi.so.40]": file.put(struct.pack("<IIQ", 0, 0, strings["[libmpi.so.40]"])),
    }
    end(6, start)
    start = file.align()
    named = {row.node.name: row.node for row in found if row.node.kind in ("procedure", "inlined")}
    file.put(struct.pack("<QIH2x", start + 16, len(named), 40))
    functions = {
        name: file.put(
            struct.pack("<QQQQII", strings[name], modules[node.module], 64 * at, files[node.file], node.line, 0)
        )
        for at, (name, node) in enumerate(named.items())
    }
    end(7, start)
    start = file.align()
    entries = [at for at, row in enumerate(found) if row.parent < 0]
    file.put(struct.pack("<QHB5x", start + 16, len(entries), 32))
    entry_at = file.put(bytes(32 * len(entries)))

    def write_children(parent: int) -> tuple[int, int]:
        below = [at for at, row in enumerate(found) if row.parent == parent]
        fixed = {}
        first = file.align()
        for at in below:
            node = found[at].node
            flex, flags = b"", 0
            if node.kind in ("procedure", "inlined"):
                flex, flags = struct.pack("<Q", functions[node.name]), 1
            elif node.kind == "instruction":
                flex, flags = struct.pack("<QQ", modules[node.module], node.line), 4
            else:
                flex, flags = struct.pack("<QII", files[node.file], node.line, 0), 2
            relation = {"procedure": 1, "inlined": 2, "instruction": 1}.get(node.kind, 0)
            lexical = {"procedure": 0, "inlined": 0, "loop": 1, "line": 2, "instruction": 3}[node.kind]
            fixed[at] = file.put(
                struct.pack(
                    "<QQIBBBBHHI", 0, 0, found[at].id, flags, relation, lexical, len(flex) // 8, relation == 0, 0, 0
                )
            )
            file.put(flex)
        size = len(file.data) - first
        for at, place in fixed.items():
            if found[at].node.children:
                struct.pack_into("<QQ", file.data, place, *write_children(at))
        return size, first

    for number, at in enumerate(entries):
        row = found[at]
        children = write_children(at)
        struct.pack_into(
            "<QQIHHQ", file.data, entry_at + 32 * number, *children, row.id, 1 + number, 0, strings[row.node.name]
        )
    end(3, start)
    for number, (size, at) in sections.items():
        struct.pack_into("<QQ", file.data, 16 + 16 * number, size, at)
    return bytes(file.data + b"_meta.db")


def values_of(thread: int) -> Iterator[tuple[int, int, float]]:
    """The values of a thread as (context, metric id, value), in order, without zeros. The instructions of lines are contexts
    that the tree does not have, as in databases that hpcprof wrote."""
    found = rows()
    execution, function = inclusive(found), inclusive(found, function_only=True)
    values: list[tuple[int, int, float]] = []
    for metric in range(len(METRICS)):
        whole = sum(row[thread] for row, one in zip(execution, found, strict=True) if one.parent < 0)
        values.append((0, 4 * metric + 3, in_unit(whole, metric)))
        for at, row in enumerate(found):
            if row.node.kind == "line":
                values += [(row.id + 1, 4 * metric + scope, in_unit(row.own[thread], metric)) for scope in range(4)]
            else:
                values.append((row.id, 4 * metric, in_unit(row.own[thread], metric)))
            values += [(row.id, 4 * metric + scope, in_unit(function[at][thread], metric)) for scope in (1, 2)]
            values.append((row.id, 4 * metric + 3, in_unit(execution[at][thread], metric)))
    yield from sorted(one for one in values if one[2])


def profile_db() -> bytes:
    """profile.db: a summary without values, and the threads."""
    file = _Writer()
    file.put(b"HPCTOOLKITprof\x04\x00" + bytes(32))
    start = file.align()
    count = len(THREADS) + 1
    file.put(struct.pack("<QIB3x", start + 16, count, 48))
    infos = file.put(bytes(48 * count))
    struct.pack_into("<QQ", file.data, 16, len(file.data) - start, start)
    start = file.align()
    tuples = [
        file.put(
            struct.pack("<H6x", 3) + _identifier(1, 0, 0x0A0B, True) + _identifier(2, rank) + _identifier(3, thread)
        )
        for rank, thread in THREADS
    ]
    struct.pack_into("<QQ", file.data, 32, len(file.data) - start, start)
    struct.pack_into("<QQIIQQI", file.data, infos, 0, 0, 0, 0, 0, 0, 1)
    for thread, tuple_at in enumerate(tuples):
        values = [*values_of(thread)]
        values_at = file.align()
        file.put(b"".join(struct.pack("<Hd", metric, value) for _, metric, value in values))
        contexts = sorted({context for context, _, _ in values})
        first = {context: next(at for at, one in enumerate(values) if one[0] == context) for context in contexts}
        index_at = file.align()
        file.put(b"".join(struct.pack("<IQ", context, first[context]) for context in contexts))
        struct.pack_into(
            *("<QQIIQQI", file.data, infos + 48 * (thread + 1), len(values), values_at, len(contexts), 0, index_at),
            *(tuple_at, 0),
        )
    return bytes(file.data + b"_prof.db")


def _identifier(kind: int, logical: int, physical: int | None = None, is_physical: bool = False) -> bytes:
    return struct.pack("<BBHIQ", kind, 0, is_physical, logical, logical if physical is None else physical)


@dataclass(frozen=True)
class Element:
    """An element of the call tree of version 2; its id is its index + 2. own: units of each thread."""

    tag: str
    node: Node
    parent: int
    own: tuple[int, ...] = (0, 0, 0, 0)

    @property
    def name(self) -> str:
        return "<unknown procedure>" if self.node.kind == "instruction" else self.node.name


def elements() -> list[Element]:
    """The call tree of version 2: only statements have own values, and inlined procedures have no line."""
    found: list[Element] = []

    def add(element: Element) -> int:
        found.append(element)
        return len(found) - 1

    def convert(node: Node, parent: int, main: bool) -> None:
        own = tuple(units if is_in_main_thread(thread) == main else 0 for thread, units in enumerate(node.own))
        if node.kind not in ("line", "instruction"):
            tag = {"loop": "L", "inlined": "Pr"}.get(node.kind, "PF")
            here = add(Element(tag, node, parent))
            for child in node.children:
                site = add(Element("C", Node("line"), here)) if child.kind in ("procedure", "instruction") else here
                convert(child, site, main)
            return
        if node.kind == "instruction":
            parent = add(Element("PF", node, parent))
        line = Node("line", "", node.line if node.kind == "line" else 0, node.module)
        if any(own):
            add(Element("S", line, parent, own))
        called = [child for child in node.children if child.kind != "inlined"]
        site = add(Element("C", line, parent)) if called else parent
        for child in node.children:
            convert(child, parent if child.kind == "inlined" else site, main)

    for root in TREE:
        convert(root, -1, root.name == "main thread")
    return found


def element_values(found: list[Element]) -> tuple[list[list[int]], list[list[int]]]:
    """The inclusive and the exclusive units of each thread. As hpcprof computes them, an exclusive value is that of the
    statements directly below, and of a PF of all its statements."""
    whole, direct = ([list(one.own) for one in found] for _ in range(2))
    for at in range(len(found) - 1, -1, -1):
        one = found[at]
        if one.parent >= 0:
            whole[one.parent] = [a + b for a, b in zip(whole[one.parent], whole[at], strict=True)]
        if one.tag == "S":
            frame = one.parent
            while found[frame].tag != "PF":
                frame = found[frame].parent
            for place in {one.parent, frame}:
                direct[place] = [a + b for a, b in zip(direct[place], one.own, strict=True)]
    return whole, direct


def experiment_xml() -> bytes:
    """experiment.xml with the sums of all threads in its M elements."""
    found = elements()
    whole, direct = element_values(found)
    modules, files = {APP: 2, MPI: 3}, {SOURCE: 4, "[libmpi.so.40]": 5}
    names = [*dict.fromkeys(one.name for one in found if one.tag in ("PF", "Pr"))]
    lines = [f'{FIRST_HEADER}<HPCToolkitExperiment version="2.2">\n<Header n="app"><Info/></Header>']
    lines.append('<SecCallPathProfile i="0" n="app">\n<SecHeader>\n<MetricTable>')
    columns = [(name, scope) for name in METRICS for scope in ("inclusive", "exclusive")]
    for number, (name, scope) in enumerate(columns):
        for first, statistic in ((4, "Sum"), (8, "Max")):
            text = f"{name}:{statistic} ({scope[0].upper()})"
            lines.append(f'<Metric i="{number + first}" n="{text}" v="derived-incr" t="{scope}"/>')
    lines.append("</MetricTable>\n<MetricDBTable>")
    for number, (name, scope) in enumerate(columns):
        text = f"{name} ({scope[0].upper()})"
        lines.append(f'<MetricDB i="{number}" n="{text}" t="{scope}" db-glob="*.metric-db" db-id="{number}"/>')
    lines.append("</MetricDBTable>\n<LoadModuleTable>")
    lines += [f'<LoadModule i="{id}" n={quoteattr(path)}/>' for path, id in modules.items()]
    lines.append("</LoadModuleTable>\n<FileTable>")
    lines += [
        f'<File i="{id}" n={quoteattr(f"./src{path}" if path == SOURCE else path)}/>' for path, id in files.items()
    ]
    lines.append("</FileTable>\n<ProcedureTable>")
    lines += [f'<Procedure i="{at + 10}" n={quoteattr(name)}/>' for at, name in enumerate(names)]
    lines.append("</ProcedureTable>\n</SecHeader>\n<SecCallPathProfileData>")

    def write(at: int) -> None:
        one = found[at]
        line = 0 if one.node.kind == "instruction" else one.node.line
        text = f'{one.tag} i="{at + 2}" s="{at + 2}" l="{line}"'
        if one.tag in ("PF", "Pr", "L"):
            text += f' f="{files[one.node.file]}"'
        if one.tag in ("PF", "Pr"):
            text += f' lm="{modules[one.node.module]}" n="{names.index(one.name) + 10}"'
        lines.append(f'<{text} a="1">' if one.tag == "Pr" else f"<{text}>")
        for number, (name, _) in enumerate(columns):
            if units := sum((direct if number % 2 else whole)[at]):
                lines.append(f'<M n="{4 + number}" v="{in_unit(units, METRICS.index(name)):g}"/>')
        for child in (number for number, other in enumerate(found) if other.parent == at):
            write(child)
        lines.append(f"</{one.tag}>")

    for at, one in enumerate(found):
        if one.parent < 0:
            write(at)
    lines.append("</SecCallPathProfileData>\n</SecCallPathProfile>\n</HPCToolkitExperiment>\n")
    return "\n".join(lines).encode()


def metric_db(thread: int) -> bytes:
    """The values of a thread, of version 2. The context with the id 1 is the whole program."""
    found = elements()
    whole, direct = element_values(found)
    root = sum(one[thread] for one, element in zip(whole, found, strict=True) if element.parent < 0)
    units = [(root, 0), *((whole[at][thread], direct[at][thread]) for at in range(len(found)))]
    values = [in_unit(pair[scope], metric) for pair in units for metric in range(len(METRICS)) for scope in range(2)]
    header = b"HPCPROF-metricdb__00.10b" + struct.pack(">II", len(units), 2 * len(METRICS))
    return header + struct.pack(f">{len(values)}d", *values)


def files() -> dict[str, bytes]:
    """The files of both databases, by path below DATA."""
    written = {"v4/meta.db": meta_db(), "v4/profile.db": profile_db(), "v2/experiment.xml": experiment_xml()}
    for number, (rank, thread) in enumerate(THREADS):
        written[f"v2/1.app-{rank:06}-{thread:03}-a0b0-{700 + rank}-0.metric-db"] = metric_db(number)
    return written


if __name__ == "__main__":
    for name, content in files().items():
        (DATA / name).parent.mkdir(parents=True, exist_ok=True)
        (DATA / name).write_bytes(content)
