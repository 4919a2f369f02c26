"""Parses options of sbatch like getopt_long: which word is an option, and which is a value.

sbatch treats the first other word as the name of a script, which it runs instead of the command of --wrap, and the rest
as arguments of that script. Such words are rejected before they reach sbatch.
"""

from collections.abc import Iterator, Sequence

from ...domain.errors import InvalidRequest

SHORT_WITH_VALUE = frozenset("ABCDFGJLMNSabcdeimnopqtwxP")
"""Short options of sbatch whose value follows in the same word or the next. -P is an option of old versions."""

_LONG_WITH_VALUE = """
account acctg-freq array autocomplete batch bb bbf begin chdir cluster cluster-constraint clusters comment
constraint container container-id context core-spec cores-per-socket cpu-freq cpus-per-gpu cpus-per-task deadline
delay-boot dependency distribution error exclude export export-file extra extra-node-info gid gpu-bind gpu-freq gpus
gpus-per-node gpus-per-socket gpus-per-task gres gres-flags hint input job-name kill-on-invalid-dep licenses
mail-type mail-user mcs-label mem mem-bind mem-per-cpu mem-per-gpu mem-update mincpus network nodefile nodelist
nodes ntasks ntasks-per-core ntasks-per-gpu ntasks-per-node ntasks-per-socket ntasks-per-tres open-mode output
partition power prefer priority profile qos reservation resources runtime segment signal sockets-per-node switches
tasks-per-node thread-spec threads-per-core time time-min tmp tres-bind tres-per-task uid wait-all-nodes wckey wrap
"""
LONG_WITH_VALUE = frozenset(_LONG_WITH_VALUE.split())
"""Long options that require a value, of Slurm 22.05 to 26.05 (manual of sbatch, slurm_opt.c)."""

_LONG_ALONE = """
consolidate-segments contiguous exclusive external get-user-env help hold ignore-pbs nice no-kill no-requeue
oom-kill-step overcommit oversubscribe parsable propagate quiet reboot requeue resv-ports share spread-job
spread-segments stepmgr test-only usage use-min-nodes verbose version wait
"""
LONG_WITHOUT_VALUE = frozenset(_LONG_ALONE.split())
"""Long options without a value, or whose value can only follow = in the same word."""


def parse(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """(option, word that contains it) of each option; a short one as -x, a long one in full, without its value. For an
    abbreviated long option all candidates are included, because ambiguity differs between versions.

    Raises InvalidRequest for a word that is neither an option nor a value. An unknown long option (of a plugin or a
    later version) may have a value only after =, because otherwise its value could be the name of a script.
    """
    words = iter(arguments)
    before = ""
    for word in words:
        if word == "--" or not word.startswith("-") or word == "-":
            raise InvalidRequest(_positional(word, before), "batch_arguments")
        before = word
        if word.startswith("--"):
            option, equals, _ = word.partition("=")
            yield from ((f"--{name}", word) for name in _expand_option(option[2:]))
            needs_value = not equals and _takes_value(option[2:])
        else:
            needs_value = False
            for place, letter in enumerate(word[1:], 2):
                yield f"-{letter}", word
                if letter in SHORT_WITH_VALUE:
                    needs_value = place == len(word)
                    break
                if letter == "k":
                    # Its value can only be joined to it.
                    break
        if needs_value and next(words, None) is None:
            raise InvalidRequest(
                f"{word[:80]!r} in the further arguments of sbatch needs a value. Add it.",
                "batch_arguments",
            )


def _takes_value(name: str) -> bool:
    """Whether the next word is the value of a long option, which may be abbreviated unambiguously."""
    fits = _expand_option(name)
    return len(fits) == 1 and fits[0] in LONG_WITH_VALUE


def _expand_option(name: str) -> list[str]:
    """The long options that a name may mean. getopt_long accepts an exact name, or a unique prefix."""
    known = LONG_WITH_VALUE | LONG_WITHOUT_VALUE
    return [name] if name in known else sorted(each for each in known if each.startswith(name)) or [name]


def _positional(word: str, before: str) -> str:
    advice = "Remove it from the further arguments of sbatch"
    if before.startswith("--") and "=" not in before and word != "--":
        advice += f", or write {before[:60]}={word[:60]} if it is the value of that option"
    return f"Slurm would run {word[:80]!r} instead of the job, as it belongs to no option. {advice}."
