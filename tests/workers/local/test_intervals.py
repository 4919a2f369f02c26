"""The last interval of a running perf stat."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfloom.workers.local.intervals import format_last_interval


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ""),
        ("     0.2;76;;page-faults;7;100.00;;\n", ""),
        ("     0.2;0.78;msec;task-clock;7\n     0.2;7600;;page-faults;7\n     0.4;1;msec;task", ""),
        ("     0.2;0.78;msec;task-clock;7\n     0.2;7600;;page-faults;7\n     0.4;1;msec;task-clock;7\n",
         "interval until 0.2 s: 0.78 msec task-clock, 7,600 page-faults"),
        ("     0.2;<not counted>;;cycles;0\n     0.2;5;;a;7\n     0.4;1;;a;7\n", "interval until 0.2 s: 5 a"),
        ('{"interval" : 0.2, "counter-value" : "9.0", "unit" : "", "event" : "a"}\n'
         '{"interval" : 0.4, "counter-value" : "8.0", "unit" : "", "event" : "a"}\n', "interval until 0.2 s: 9 a"),
        ("nan;1;;a;\n1;inf;;a\n{}\n{]\n;;;;\n", ""),
    ],
)  # fmt: skip
def test_intervals(tmp_path: Path, text: str, shown: str) -> None:
    path = tmp_path / "perf-stat.txt"
    path.write_text("# started on\n\n" + text)
    assert format_last_interval(path) == shown
