"""Notes on events that were measured in several runs."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection
from perfloom.web.views.results.run_notes import list_run_notes
from tests.support.mpi.recordings import recording_of


def are_summed(profile: Profile) -> bool:
    return any("sums over these runs" in note for note in list_run_notes(profile, Selection()))


def test_the_ranks_of_one_run_are_not_several_runs() -> None:
    ranks = recording_of("slow.mpich")
    assert not are_summed(ranks)
    # Two runs of two ranks.
    threads = ranks.threads
    repeated = threads.set_column(
        threads.schema.get_field_index("rank"),
        threads.schema.field("rank"),
        pa.chunked_array(
            [pa.array([rank % 2 for rank in threads["rank"].to_pylist()], threads.schema.field("rank").type)]
        ),
    )
    assert are_summed(replace(ranks, threads=repeated))
