"""The constant POSIX sh scripts in this package."""

from functools import partial
from pathlib import Path

from perfloom.recording.scripts import script_text

worker_script = partial(script_text, package=Path(__file__).parent)
"""A script by its path in this package, such as `transports/get_file.sh`."""
