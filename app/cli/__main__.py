"""`python -m perfloom.cli` is `perfloom`."""

from . import main

main()
