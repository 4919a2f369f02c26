"""What all batch systems have in common: scripts that never change, and the telling of silence from refusal."""

import re
from collections.abc import Sequence

from ..domain.errors import InvalidRequest, Unavailable, Unreachable
from ..launchers.quoting import join

NOT_FOUND = 127
"""The exit status of a shell that does not find a program."""
MISSING = re.compile(r"(\S+): (?:command )?not found|env: .(\w+).: No such file", re.ASCII)
LONGEST = 300
"""How much of what a batch system says is shown."""


def script(text: str, *arguments: str) -> tuple[str, ...]:
    """argv that runs a script of ours with arguments. No word of a user's may be part of `text`."""
    return ("sh", "-c", text, "sh", *arguments)


def command_line(script: Sequence[str]) -> str:
    """A command line as one word, for batch systems that hand what they are given to /bin/sh."""
    return join(script)


def clock(seconds: int) -> tuple[int, int]:
    """(hours, minutes) that last at least so long: batch systems count in minutes."""
    return divmod(-(-seconds // 60), 60)


def said(text: str, noise: re.Pattern[str]) -> str:
    """What a batch system said as one sentence: without what it repeats before each line, and not endlessly long."""
    lines = [re.sub(noise, "", line).strip().rstrip(".") for line in text.splitlines()]
    words = ". ".join(dict.fromkeys(line for line in lines if line))
    return words if len(words) <= LONGEST else words[: LONGEST - 1] + "…"


def answered(title: str, program: str, silence: re.Pattern[str], stderr: str, status: int) -> None:
    """Raises Unavailable where the program is not there, Unreachable where what should answer it does not."""
    if status == NOT_FOUND and (MISSING.search(stderr) or not stderr.strip()):
        raise Unavailable(
            f"{title} cannot be asked: {program} was not found there. Load the module that provides it in the target's "
            "settings, or choose a target with another batch system."
        )
    if silence.search(stderr):
        raise Unreachable(f"{title} does not answer at present: {stderr.strip().splitlines()[-1][:LONGEST]}")


def refuse(title: str, program: str, arguments: Sequence[str], kept: Sequence[str], glued: Sequence[str] = ()) -> None:
    """Raises InvalidRequest where further arguments would make something else of it than one job that runs once.

    kept: the options that are not for the user; a long one may be cut short. glued: short ones of them that may have
    their value right behind them.
    """
    for word in arguments:
        option = word.partition("=")[0]
        for name in kept:
            cut = name.startswith("--") and len(option) > 3 and name.startswith(option)
            if option == name or cut or (name in glued and word.startswith(name)):
                raise InvalidRequest(
                    f"{title} is given {name} by Perfloom itself, or cannot run a recording with it. Remove {word!r} "
                    f"from the further arguments of {program}.",
                    "batch_arguments",
                )


def sentence(words: str, advice: str) -> str:
    """The batch system's own words and what they mean for a person."""
    if not words:
        return advice
    return f"{advice} ({words})" if advice else words
