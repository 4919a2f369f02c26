"""A text pipeline in four phases: load, index, compress, report.

Each phase lasts its share of ``--seconds`` and has its own threads, named after what they do; some hold the
interpreter's lock (parsing, counting), some release it for most of their time (deflate, hashing, SQLite), so
that threads wait for each other in one phase and run side by side in the next. Nothing is read or written but
memory and the threads' names.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import random
import re
import sqlite3
import statistics
import sys
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from .symbols import install_stubs, register

SHARES = {"load": 0.2, "index": 0.3, "compress": 0.3, "report": 0.2}
SYLLABLES = ("per", "for", "mance", "loom", "weft", "warp", "shut", "tle", "sel", "vedge", "yarn", "bob", "bin")
WORD = re.compile(r"[a-z]+(?:-[a-z]+)*")


@dataclass
class Corpus:
    """What the phases hand on; each list is appended to by one thread at a time."""

    seed: int
    documents: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    packed_bytes: int = 0
    digests: set[str] = field(default_factory=set)


Work = Callable[[Corpus, int], None]
"""One round of a thread's work; the number says which round it is."""


def name_thread(name: str) -> None:
    """Give the calling thread the name that perf sees (at most 15 bytes)."""
    try:
        Path(f"/proc/self/task/{threading.get_native_id()}/comm").write_text(name[:15])
    except OSError:  # the name is optional: without /proc the work continues
        pass


# ---- load ------------------------------------------------------------------------------------------------


def make_word(source: random.Random) -> str:
    return "".join(source.choices(SYLLABLES, k=source.randint(1, 3)))


@register
def write_document(source: random.Random, number: int) -> str:
    words = [make_word(source) for _ in range(400)]
    record = {"id": number, "title": " ".join(words[:5]), "body": " ".join(words), "sizes": [len(w) for w in words]}
    return json.dumps(record)


@register
def load_documents(corpus: Corpus, turn: int) -> None:
    corpus.documents.append(write_document(random.Random(corpus.seed + turn), turn))


@register
def parse_documents(corpus: Corpus, turn: int) -> None:
    """Parse again what is there so far, as a reader would that checks what it loads."""
    for document in corpus.documents[turn % 7 :: 7] or [write_document(random.Random(turn), turn)]:
        json.loads(document)


# ---- index -----------------------------------------------------------------------------------------------


@register
def tokenize(text: str) -> list[str]:
    return WORD.findall(text)


@register
def count_words(corpus: Corpus, turn: int) -> None:
    corpus.counts.update(tokenize(corpus.documents[turn % len(corpus.documents)]))


@register
def index_words(corpus: Corpus, turn: int) -> None:
    """Put some documents' words into an SQL table, index it and ask for its commonest words.

    A document's words go over as one statement: the interpreter's lock is dropped and fought for again at each.
    """
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        database.execute("CREATE TABLE words (word TEXT, document INTEGER, place INTEGER)")
        for number, document in enumerate(corpus.documents[turn % 50 :: 50]):
            words = json.dumps(tokenize(document))
            database.execute("INSERT INTO words SELECT value, ?, key FROM json_each(?)", (number, words))
        database.execute("CREATE INDEX by_word ON words (word, document)")
        database.execute(
            "SELECT word, count(DISTINCT document), avg(place) FROM words GROUP BY word ORDER BY 2 DESC, 1"
        ).fetchall()


# ---- compress --------------------------------------------------------------------------------------------


@register
def deflate_documents(corpus: Corpus, turn: int) -> None:
    text = "\n".join(corpus.documents[turn % 3 :: 3]).encode()
    corpus.packed_bytes += len(zlib.compress(text, 7))


@register
def hash_documents(corpus: Corpus, turn: int) -> None:
    text = "\n".join(corpus.documents[turn % 2 :: 2]).encode()
    corpus.digests.add(hashlib.sha256(text).hexdigest())
    corpus.digests.add(hashlib.blake2b(text).hexdigest())


# ---- report ----------------------------------------------------------------------------------------------


@register
def sort_words(corpus: Corpus, turn: int) -> None:
    words = [word for document in corpus.documents[turn % 20 :: 20] for word in document.split()]
    words.sort(key=lambda word: (len(word), word[::-1]))


@register
def summarize_lengths(corpus: Corpus, turn: int) -> None:
    lengths = [float(len(word) + turn % 3) for word in corpus.counts for _ in range(3)]
    statistics.fmean(lengths)
    statistics.pstdev(lengths)


@register
def digits_of_e(_corpus: Corpus, turn: int) -> None:
    """Many digits of e as one whole number: long multiplication and division."""
    numerator, denominator = 1, 1
    for n in range(1, 700 + turn % 50):
        numerator, denominator = numerator * n + 1, denominator * n
    _ = numerator * 10**1500 // denominator


# ---- the phases ------------------------------------------------------------------------------------------

PHASES: dict[str, dict[str, Work]] = {
    "load": {"loader": load_documents, "parser": parse_documents},
    "index": {"word-counter": count_words, "sql-indexer": index_words},
    "compress": {"deflate-1": deflate_documents, "deflate-2": deflate_documents, "hasher": hash_documents},
    "report": {"sorter": sort_words, "summarizer": summarize_lengths, "big-numbers": digits_of_e},
}


def repeat(name: str, work: Work, corpus: Corpus, until: float, rounds: dict[str, int]) -> None:
    """A thread's life: its work round after round until the phase is over, at least once."""
    name_thread(name)
    turn = 0
    while True:
        work(corpus, turn)
        turn += 1
        rounds[name] = turn
        if time.monotonic() >= until:
            return


def run_phase(phase: str, corpus: Corpus, seconds: float) -> dict[str, int]:
    """Run a phase's threads side by side; how many rounds each made."""
    name_thread(f"main: {phase}")
    until = time.monotonic() + seconds
    rounds: dict[str, int] = {}
    threads = [
        threading.Thread(target=repeat, name=name, args=(name, work, corpus, until, rounds))
        for name, work in PHASES[phase].items()
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return rounds


def main(arguments: list[str] | None = None) -> int:
    """The command: run the four phases and say what each did."""
    parser = argparse.ArgumentParser(prog="perfloom.workload", description="A small text pipeline to profile.")
    parser.add_argument("--seconds", type=float, default=4.0, help="approximate run time (default 4)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the text (default 1)")
    options = parser.parse_args(arguments)
    if not 0 < options.seconds < 3600:
        parser.error("--seconds must be between 0 and 3600")
    # Ten times as often as by default, so that a thread which drops the lock often gets its turn.
    sys.setswitchinterval(0.0005)
    install_stubs()
    corpus = Corpus(options.seed)
    for phase, share in SHARES.items():
        rounds = run_phase(phase, corpus, options.seconds * share)
        print(f"{phase:9}", ", ".join(f"{name} {count:,}" for name, count in rounds.items()), flush=True)
    print(f"{len(corpus.documents):,} documents, {len(corpus.counts):,} words, {len(corpus.digests):,} digests")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
