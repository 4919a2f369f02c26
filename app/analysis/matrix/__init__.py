"""Functions by rank, process or thread: computing and waiting, outliers, and since when."""
