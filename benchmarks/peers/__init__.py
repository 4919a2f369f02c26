"""`make bench`: Perfloom and other tools on the same files, in the same run. See docs/performance.md."""
