"""Recognizes from file names that files are the ranks of one run, and their order.

The names must be equal but for numbers. `rank0`, `node3`, `worker-2` and the like identify a rank, in any part of a
name; a number without such a word only if the numbers are 0, 1, 2 … without gaps. PyTorch's names
(`host_pid.time.pt.trace.json`) identify a process by host and pid; recorded intervals of one process count once.
"""

import re
import string
from collections.abc import Sequence
from dataclasses import dataclass, replace

RANK_WORDS = frozenset(("rank", "mpirank", "globalrank", "global", "pe", "proc", "process", "task", "worker"))
PLACE_WORDS = frozenset(("node", "host", "nid", "gpu", "device", "dev", "cuda", "local", "localrank", "slot"))
RUN_WORDS = frozenset(
    (
        *(
            "run",
            "runs",
            "iter",
            "iteration",
            "step",
            "epoch",
            "test",
            "try",
            "trial",
            "attempt",
            "version",
            "v",
            "size",
        ),
        *(
            "batch",
            "seed",
            "part",
            "repeat",
            "rep",
            "sample",
            "job",
            "time",
            "date",
            "build",
            "commit",
            "config",
            "case",
        ),
    )
)
"""Words before a number that distinguishes runs, not ranks."""
MAX_INTERVAL_NS = 300 * 10**9
"""Ranks of one run write their PyTorch traces at about the same time."""
MAX_LENGTH = 1000
"""Longer names are not examined."""
MAX_TOTAL_LENGTH = 500_000
"""The same for many long names: 5,000 of them would take a web process 15 s."""
MAX_WORD = 64
"""Characters before a number in which its word is looked for."""
_NUMBER = re.compile(r"\d+")
_PYTORCH = re.compile(r"(?P<worker>.+_\d+)\.(?P<time>\d{10,20})(?:\.\d+)?\.pt\.trace\.json(?:\.\w+)?", re.DOTALL)
_SEPARATORS = "-_.=/\\"


@dataclass(frozen=True)
class RankSet:
    """Files that are the ranks of one run. order: their indices by rank. count: of ranks; less than files if a process
    has several. reason: a sentence. name: of the run, what the names have in common. certain: whether a word in the
    names says so, not numbers alone. others: indices of the files that are not of this run."""

    order: tuple[int, ...]
    count: int
    reason: str
    name: str
    certain: bool
    others: tuple[int, ...] = ()


@dataclass(frozen=True)
class _Name:
    """A name with its numbers. template: the name without them. words: what precedes each."""

    template: tuple[str, ...]
    words: tuple[str, ...]
    numbers: tuple[int, ...]
    texts: tuple[str, ...]


def recognize_ranks(names: Sequence[str]) -> RankSet | None:
    """The ranks that these names (with their folders, if known) are of; None if they are not recognized as such."""
    if len(names) < 2 or not _are_examined(names) or max(map(len, names)) > MAX_LENGTH:
        return None
    return _from_workers(names) or _from_numbers(names)


def find_ranks(names: Sequence[str]) -> RankSet | None:
    """The ranks of one run among files of which some may be of no run: then only if words name the ranks, and of one
    run only. None if there are none."""
    whole = recognize_ranks(names)
    if whole is not None or not _are_examined(names):
        return whole
    families: dict[str, list[int]] = {}
    for at, name in enumerate(names):
        if family := rank_family(name):
            families.setdefault(family, []).append(at)
    found = [
        (ranks, members)
        for members in families.values()
        if (ranks := recognize_ranks([names[at] for at in members])) is not None and ranks.certain
    ]
    if len(found) != 1:
        return None
    ranks, members = found[0]
    others = tuple(at for at in range(len(names)) if at not in set(members))
    return replace(ranks, order=tuple(members[at] for at in ranks.order), others=others)


def _are_examined(names: Sequence[str]) -> bool:
    """Whether names are different, and not too long together."""
    return len(set(names)) == len(names) and sum(map(len, names)) <= MAX_TOTAL_LENGTH


def rank_family(name: str) -> str:
    """A text that is equal for the files of the ranks of one run, and for few others; empty if the name has no rank."""
    if len(name) > MAX_LENGTH:
        return ""
    if _match_pytorch(name) is not None:
        return "pytorch"
    parsed = _parse(name)
    known = RANK_WORDS | PLACE_WORDS
    if not any(word in known for word in parsed.words):
        return ""
    numbers = ("" if word in known else text for word, text in zip(parsed.words, parsed.texts, strict=True))
    return "\0".join(part for pair in zip(parsed.template, (*numbers, ""), strict=True) for part in pair)


def _match_pytorch(name: str) -> re.Match[str] | None:
    # Matched from its start: a search takes a time that is quadratic in the length of the name.
    return _PYTORCH.fullmatch(name, max(name.rfind("/"), name.rfind("\\")) + 1)


def _from_workers(names: Sequence[str]) -> RankSet | None:
    found = [_match_pytorch(name) for name in names]
    matches = [match for match in found if match is not None]
    if len(matches) < len(names):
        return None
    first: dict[str, int] = {}
    for match in matches:
        time = int(match["time"]) * (1 if len(match["time"]) > 16 else 10**6)
        first[match["worker"]] = min(time, first.get(match["worker"], time))
    if len(first) < 2 or max(first.values()) - min(first.values()) > MAX_INTERVAL_NS:
        return None
    keys = [(*_natural(match["worker"]), match["time"]) for match in matches]
    reason = (
        f"The names contain host and process id of {len(first)} PyTorch workers, and times at most 5 minutes apart."
    )
    hosts = {worker.rpartition("_")[0] for worker in first}
    name = f"{hosts.pop() if len(hosts) == 1 else f'{len(hosts)} hosts'}, {len(first)} workers"
    return RankSet(tuple(sorted(range(len(names)), key=keys.__getitem__)), len(first), reason, name, True)


def _from_numbers(names: Sequence[str]) -> RankSet | None:
    parsed = [_parse(name) for name in names]
    if len({one.template for one in parsed}) > 1:
        return None
    words = parsed[0].words
    varying = [at for at in range(len(words)) if len({one.numbers[at] for one in parsed}) > 1]
    ranks = [at for at in varying if words[at] in RANK_WORDS]
    places = [at for at in varying if words[at] in PLACE_WORDS]
    others = [at for at in varying if at not in ranks and at not in places]
    # Times and process ids can vary too, but not what names another run.
    if any(words[at] in RUN_WORDS for at in others):
        return None
    certain = True
    for chosen in (ranks, [*places, *ranks], [*places, *ranks, *others] if places and len(others) == 1 else []):
        keys = [tuple(one.numbers[at] for at in chosen) for one in parsed]
        if chosen and len(set(keys)) == len(names):
            break
    else:
        keys = [one.numbers for one in parsed]
        counted = [one.numbers[varying[0]] for one in parsed] if len(varying) == 1 else []
        if sorted(counted) != list(range(len(names))):
            return None
        chosen, certain = varying, False
    order = tuple(sorted(range(len(names)), key=keys.__getitem__))
    texts = [_text(parsed[at], chosen) for at in order]
    shown = f"{', '.join(texts)}" if len(texts) <= 3 else f"{texts[0]}, {texts[1]} … {texts[-1]}"
    reason = f"The names differ only in {'the rank' if certain else 'a number that counts from 0'}: {shown}."
    return RankSet(order, len(names), reason, _common(parsed[0], set(varying)), certain)


def _parse(name: str) -> _Name:
    template, words, numbers, texts, end = [], [], [], [], 0
    for match in _NUMBER.finditer(name):
        before = name[max(0, match.start() - MAX_WORD) : match.start()].rstrip(_SEPARATORS)
        word = before[len(before.rstrip(string.ascii_letters)) :]
        template.append(name[end : match.start()])
        words.append(word.lower())
        # A million digits are no number.
        numbers.append(int(match[0][:30]))
        texts.append(match[0])
        end = match.end()
    return _Name((*template, name[end:]), tuple(words), tuple(numbers), tuple(texts))


def _text(name: _Name, chosen: Sequence[int]) -> str:
    return " ".join(
        f"{name.words[at]} {name.texts[at]}" if name.words[at] in RANK_WORDS | PLACE_WORDS else name.texts[at]
        for at in sorted(chosen)
    )


def _common(name: _Name, varying: set[int]) -> str:
    """The name with `*` instead of what differs."""
    parts = [name.template[0]]
    for at, text in enumerate(name.texts):
        parts += ["*" if at in varying else text, name.template[at + 1]]
    return "".join(parts)


def _natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """A key that sorts numbers in texts by their value."""
    return tuple(
        (0, int(part[:30]), "") if part.isdecimal() and part.isascii() else (1, 0, part)
        for part in re.split(r"([0-9]+)", text)
        if part
    )
