"""The timeline: what threads, streams and series did when, at any zoom, for profiles of samples and of slices alike."""
