"""What the format is called, how it is recognized, and what may be lost of it."""

import re

FORMAT = "perf-trace"
LINE = re.compile(
    rb" *(?:\?|(\d{1,15})\.(\d{3})) \( *+(?:(\d{1,12})\.(\d{3}) ms)? *+\): ++(?:(\S.{0,30}?)/(\d{1,10}) +)?(\S.*)"
)
"""Milliseconds and their fraction, those of the duration, task, thread, and what it did."""
SUMMARY = re.compile(rb" (\S.{0,30}?) \((\d{1,10})\), (\d+) events, [\d.]+%.*")
