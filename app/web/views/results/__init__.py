"""Pages of results: list, overview, flame graph, tables, timeline, export."""
