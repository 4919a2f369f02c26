"""Additional arguments of perf that a job may have.

Only listed options are allowed: Perfloom sets the others itself (-e, -F, --call-graph, -a, …), and some write to files
(-o, --kcore, --switch-output), start programs (--pre, --post) or change the format of the output (-x, --metric-only).
"""

from collections.abc import Mapping, Sequence

from .base import Recorder

_RECORD = (
    *("-d", "--data", "-i", "--no-inherit", "-P", "--period", "-R", "--raw-samples", "-T", "--timestamp"),
    *("-W", "--weight", "-b", "--branch-any", "-s", "--stat", "-q", "--quiet", "--all-cgroups", "--all-kernel"),
    *("--all-user", "--buildid-all", "--code-page-size", "--data-page-size", "--exclude-perf", "--group"),
    *("--kernel-callchains", "--namespaces", "--no-buffering", "--per-thread", "--phys-data", "--running-time"),
    *("--sample-identifier", "--strict-freq", "--switch-events", "--tail-synthesize", "--timestamp-boundary"),
    *("--transaction", "--user-callchains"),
)
_RECORD_WITH_VALUE = (
    *("-D", "--delay", "-j", "--branch-filter", "-k", "--clockid", "-m", "--mmap-pages", "-r", "--realtime"),
    *("--affinity", "--filter", "--max-size", "--mmap-flush", "--num-thread-synthesize", "--proc-map-timeout"),
    "--synth",
)
_STAT = (
    *("-d", "--detailed", "-i", "--no-inherit", "-S", "--sync", "--all-kernel", "--all-user", "--metric-no-group"),
    *("--metric-no-merge", "--no-merge", "--no-scale", "--per-core", "--per-die", "--per-node", "--per-socket"),
    *("--per-thread", "--topdown"),
)
_STAT_WITH_VALUE = ("-D", "--delay", "-M", "--metrics", "--cputype", "--filter", "--td-level")

RECORD_OPTIONS: Mapping[str, bool] = dict.fromkeys(_RECORD, False) | dict.fromkeys(_RECORD_WITH_VALUE, True)
STAT_OPTIONS: Mapping[str, bool] = dict.fromkeys(_STAT, False) | dict.fromkeys(_STAT_WITH_VALUE, True)
"""The permitted options of perf record and of perf stat, and whether each has a value."""


def find_argument_problem(recorder: Recorder, arguments: Sequence[str]) -> str | None:
    """A message about the first argument that is not permitted; None if all are.

    perf accepts abbreviated long options and joined short ones, so each option must be written out, on its own. A value
    is the next argument, or follows `=` (long options).
    """
    options = RECORD_OPTIONS if recorder.samples else STAT_OPTIONS if recorder.counts else {}
    words = iter(arguments)
    for word in words:
        name, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
        if name not in options:
            allowed = ", ".join(option for option in options if option.startswith("--"))
            return f"“{word[:60]}” is not allowed as a further argument of perf. Use one of: {allowed}."
        if not options[name] and equals:
            return f"The option {name} takes no value. Write only {name}."
        if options[name] and not equals:
            value = next(words, "")
        if options[name] and (not value or value.startswith("-")):
            return f"The option {name} needs a value. Write it after the option."
    return None
