"""Why a recording is left to perf script."""


class UnsupportedRecords(Exception):
    """The records of a file contain something that only `perf script` reads. reason: a clause, for the user."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
