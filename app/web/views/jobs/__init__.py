"""Pages of jobs: list, form, progress and output."""
