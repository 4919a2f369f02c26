"""Charts of pages, as plain data or as safe SVG."""
