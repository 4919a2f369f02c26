"""Charts: what a page draws, as plain data or as safe SVG."""
