"""The name of the format, how it is recognized, and its losses."""

import re

FORMAT = "perf-sched"
LINE = re.compile(
    rb" *+(.{0,40}?) ++(?:(-?\d{1,10})/)?(-?\d{1,10}) +\[(\d{1,5})\] +(?:[A-Za-z.]{1,8} +)?(\d{1,12})\.(\d{9}|\d{6}): +"
    rb"(?:\d+ +)?sched:(\w+): *(.*)"
)
"""Task, process, thread (-1 if it has ended), CPU, seconds, their fraction, the event and its fields."""
TIMEHIST = re.compile(
    rb" *(\d{1,12})\.(\d{6}) \[(\d{1,5})\] +(?:[sim]+ {2,})?(.{1,40}?)\[(-?\d{1,10})(?:/(\d{1,10}))?\] +"
    rb"(\d{1,12})\.(\d{3}) +(\d{1,12})\.(\d{3}) +(\d{1,12})\.(\d{3}) *(?:([A-Za-z]) *(?= |$))?(.*)"
)
"""Seconds, their fraction, CPU, task, thread, process, wait, delay and run in ms and fraction, state, and further
text."""
