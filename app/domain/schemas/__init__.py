"""Schemas of tables that only some recordings have: parts of `tables.SCHEMAS`."""
