"""The timeline: threads, streams and series over time, at any zoom, for profiles of samples and of slices."""
