"""The files of results: columns, originals and caches."""
