"""The page of the timeline, with the samples of the selected time."""
