"""A builder whose threads and times can be asked for: of samples, to which the states of their threads are added."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...domain.builder import ProfileBuilder


class ThreadedProfileBuilder(ProfileBuilder):
    """A builder of samples and of tracks of their threads."""

    def get_hosts(self) -> list[str]:
        """The hosts of the threads."""
        return list(dict.fromkeys(key.host for key in self._threads if key.host))

    def get_time_span_ns(self) -> tuple[int, int] | None:
        """The times of the earliest and the latest sample so far; None without any."""
        columns = [part[0] for part in self._samples if len(part[0])]
        columns += [np.array([row[0] for row in self._rows])] if self._rows else []
        return (min(int(c.min()) for c in columns), max(int(c.max()) for c in columns)) if columns else None

    def intern_tracks(self, tids: Sequence[int]) -> list[int]:
        """The ids of tracks of the threads with these numbers, added on first use, with the names of the threads."""
        keys = {thread: key for key, thread in self._threads.items()}
        threads = self.get_threads("thread")
        tracks = {
            threads[tid]: self._threads.setdefault(replace(keys[threads[tid]], kind="track"), len(self._threads))
            for tid in tids
        }
        for thread, from_ns, name in [*self._names]:
            if thread in tracks:
                self.set_thread_name(tracks[thread], from_ns, name)
        return list(tracks.values())
