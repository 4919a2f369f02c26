"""Names in the directory of a stored profile. Without pyarrow, which takes longer to load than most commands run."""

MANIFEST = "manifest.json"
CODE_FOLDER = "code"
STAGED_CODE_PREFIX = f".{CODE_FOLDER}-"
"""Directories with this prefix are of machine code that is not yet published."""
