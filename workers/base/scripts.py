"""The constant POSIX sh scripts of workers."""

from functools import partial
from pathlib import Path

from perfloom.recording.scripts import script_text

worker_script = partial(script_text, package=Path(__file__).parents[1])
"""A script by its path in perfloom.workers, such as `transports/get_file.sh`."""
