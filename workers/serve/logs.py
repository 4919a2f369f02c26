"""What Perfloom's own processes say on standard error."""

import logging

LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def set_up_logging(verbose: bool) -> None:
    """To standard error: warnings, and what the steps do where asked for."""
    logging.basicConfig(level=logging.WARNING, format=LOG_FORMAT, force=True)
    logging.getLogger("perfloom").setLevel(logging.INFO if verbose else logging.WARNING)
    # It repeats at every start that a broker may be away for a while.
    logging.getLogger("kombu").setLevel(logging.ERROR)
