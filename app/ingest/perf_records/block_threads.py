"""Work on the blocks of a recording, on a few threads: the functions of numpy that do it run at the same time."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")
MAX_THREADS = 3
"""More gain little, and each needs memory."""


def map_blocks(function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """The results for all items, in order. The first error is raised, after what has begun has ended."""
    threads = min(MAX_THREADS, len(os.sched_getaffinity(0)), len(items))
    if threads < 2:
        return [function(item) for item in items]
    with ThreadPoolExecutor(threads) as pool:
        begun = [pool.submit(function, item) for item in items]
        try:
            return [one.result() for one in begun]
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


@contextmanager
def begin_blocks(function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Iterable[Result]]:
    """Begin the work on all items in one other thread; gives an iterable of the results, in order. At the end of the
    block, what has begun has ended. With one CPU, each is done when it is asked for."""
    if len(os.sched_getaffinity(0)) < 2:
        yield map(function, items)
        return
    with ThreadPoolExecutor(1) as pool:
        begun = [pool.submit(function, item) for item in items]
        try:
            yield (one.result() for one in begun)
        finally:
            pool.shutdown(cancel_futures=True)
