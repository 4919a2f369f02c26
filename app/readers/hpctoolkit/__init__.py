"""Reader of databases of HPCToolkit, which hpcprof makes from the measurements of hpcrun (hpctoolkit.org).

Versions 2 and 3 are an experiment.xml with a .metric-db file for each thread, version 4 is meta.db with profile.db.
`DatabaseReader` reads all files of a database; `read` an experiment.xml alone, with the sums over all threads.
"""

from typing import BinaryIO

from ...domain.errors import UnreadableInput
from ...domain.profile import Profile
from .format import FORMAT, LOSSES, TEXT
from .parts import TREE_FILE, classify_file

__all__ = ["FORMAT", "LOSSES", "read", "sniff"]


def sniff(head: bytes) -> bool:
    """Whether a file that starts with `head` is a file of a database."""
    return classify_file(head) is not None


def read(stream: BinaryIO, source: str = FORMAT) -> Profile:
    """The profile in an experiment.xml alone. Raises UnreadableInput for other files of a database."""
    # Imported only when a file is read: the list of formats needs no parser.
    from .database import DatabaseReader
    from .prefixed_stream import PrefixedStream

    file = PrefixedStream(stream)
    if classify_file(file.head) != TREE_FILE:
        raise UnreadableInput(
            f"{source} is one file of {TEXT}. Import the directory: perfloom import DIRECTORY; or choose all its files "
            "together on the page Import (meta.db and profile.db, or experiment.xml and the .metric-db files)."
        )
    return DatabaseReader(file, source, alone=True).finish()
