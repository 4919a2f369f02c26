"""Pages of targets: list, form, checks and credentials."""
