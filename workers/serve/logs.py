"""Logging of Perfloom's own processes to standard error."""

import logging

LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def set_up_logging(verbose: bool) -> None:
    """Log warnings to standard error, and with `verbose` also the steps of jobs."""
    logging.basicConfig(level=logging.WARNING, format=LOG_FORMAT, force=True)
    logging.getLogger("perfloom").setLevel(logging.INFO if verbose else logging.WARNING)
    # It repeats at every start that a broker may be away for a while.
    logging.getLogger("kombu").setLevel(logging.ERROR)
