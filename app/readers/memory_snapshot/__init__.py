"""Reader of memory snapshots of PyTorch, written by torch.cuda.memory._dump_snapshot.

It is a pickle. Pickles can run programs, so it is never unpickled: `pickle_tape` reads only opcodes that create plain
values and refuses any file with another one.

Why not `pickle.Unpickler` with a `find_class` that refuses: a truncated file yields nothing, because the members of the
outermost dict are added to it last; objects take 3 times the memory (228 MB of 4 million events: 1.5 GB instead of 0.6)
and take longer to create and to convert to columns; and a small file is enough to crash it (a key of nested tuples, 3
MB, is hashed recursively), to occupy it for more than a minute (a key of shared tuples, 100 bytes) or to allocate 4.3
GB (a value put into the memo under the number 2^28, 9 bytes).
"""

from typing import BinaryIO

from ...domain.profile import Profile
from .format import FORMAT, LOSSES

__all__ = ["FORMAT", "LOSSES", "read", "sniff"]

NEWEST_PROTOCOL = 5


def sniff(head: bytes) -> bool:
    """Whether a file that starts with `head` is a pickle of protocol 2 or later."""
    return len(head) > 1 and head[0] == 0x80 and 2 <= head[1] <= NEWEST_PROTOCOL


def read(stream: BinaryIO, source: str = FORMAT) -> Profile:
    """The profile in a snapshot. `source` names it in messages.

    Raises UnreadableInput for a pickle that contains other than plain values, or is no snapshot. Of a truncated one
    everything before its end is read.
    """
    # Imported here, because most processes that list formats do not need the compiler.
    from . import assembly as snapshot_assembly
    from . import pickle_tape

    return snapshot_assembly.build_profile(pickle_tape.read(stream, source), source, getattr(stream, "defect", None))
