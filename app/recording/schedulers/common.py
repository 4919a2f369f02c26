"""What all batch systems have in common: scripts that never change, and the telling of silence from refusal."""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import NoReturn

from ...domain.errors import InvalidRequest, Unavailable, Unreachable
from ...domain.text import shorten

NOT_FOUND = 127
"""The exit status of a shell that does not find a program."""
MISSING = re.compile(r"(\S+): (?:command )?not found|env: .(\w+).: No such file", re.ASCII)
OPTION = re.compile(
    r"\b(illegal|unrecognized|unrecognised|unknown|invalid|ambiguous|bad) option\b|"
    r"\boption\b.*\b(requires an argument|doesn.t allow an argument|is ambiguous)",
    re.I,
)
"""What programs say of options that they do not know or cannot read."""
USAGE = re.compile(r"^\s*usage\s*:.*|^Try [\"'].*--help.*$", re.I | re.M | re.S)
"""From where a program says how it is to be called."""
ARGUMENTS = "batch_arguments"
MAX_MESSAGE = 300
"""How much of what a batch system says is shown."""
ReasonAdvice = tuple[tuple[re.Pattern[str], str], ...]
"""What stands in a reason → what it means for a person, empty for what needs no words; the first that fits counts."""


def script_argv(text: str, *arguments: str) -> tuple[str, ...]:
    """argv that runs a script of ours with arguments. No word of a user's may be part of `text`."""
    return ("sh", "-c", text, "sh", *arguments)


def explain_words(title: str, words: str, reasons: ReasonAdvice) -> str:
    """What a reason of a batch system means, with its own words. Empty where there is nothing to say."""
    for pattern, advice in reasons:
        if pattern.search(words):
            return f"{advice} ({words})" if advice else ""
    return f"{title}'s reason: {words}." if words else ""


def hours_and_minutes(seconds: int) -> tuple[int, int]:
    """(hours, minutes) that last at least so long: batch systems count in minutes."""
    return divmod(-(-seconds // 60), 60)


@dataclass(frozen=True)
class AnswerParser:
    """How a batch system talks. noise: what it repeats before each line. no_answer: what its programs say where it does
    not answer them. refusals: a pattern of what it refuses, the field of the form that is about, and what to do; the
    first that fits counts. An option that it does not know is the same for all (OPTION), and comes before them: the
    usage behind it names queues, projects and all else."""

    title: str
    noise: re.Pattern[str]
    no_answer: re.Pattern[str]
    refusals: tuple[tuple[str, str, str], ...]

    def clean_text(self, text: str) -> str:
        """What it said as one sentence: without its noise, and not endlessly long."""
        lines = [self.noise.sub("", line).strip().rstrip(".") for line in text.splitlines()]
        return shorten(". ".join(dict.fromkeys(line for line in lines if line)), MAX_MESSAGE)

    def check_answered(self, program: str, stderr: str, status: int) -> None:
        """Raises Unavailable where the program is not there, Unreachable where what should answer it does not."""
        if status == NOT_FOUND and (MISSING.search(stderr) or not stderr.strip()):
            raise Unavailable(
                f"{self.title} is not available: {program} was not found there. Add the module that provides it to the "
                "target's settings, or choose a target with another batch system."
            )
        if self.no_answer.search(stderr):
            raise Unreachable(
                f"{self.title} does not respond at the moment: {stderr.strip().splitlines()[-1][:MAX_MESSAGE]}"
            )

    def check_complete(self, program: str, stderr: str, status: int) -> None:
        """The same, and Unreachable where the program failed: half a list would make jobs vanish."""
        self.check_answered(program, stderr, status)
        if status:
            words = self.clean_text(stderr) or f"{program} ended {status}"
            raise Unreachable(f"{self.title} does not respond as expected: {words}.")

    def raise_refused(self, text: str) -> NoReturn:
        """Raises InvalidRequest for a job that it does not take: why in its own words, and what to do about it."""
        words = self.clean_text(USAGE.sub("", text)) or self.clean_text(text)
        message = f"{self.title} rejected the job: {words or 'no reason was given'}."
        if OPTION.search(text):
            raise InvalidRequest(f"{message} Correct or remove that option in the further arguments.", ARGUMENTS)
        for pattern, field, advice in self.refusals:
            if re.search(pattern, words, re.I):
                raise InvalidRequest(f"{message} {advice}", field)
        raise InvalidRequest(message)


def reject_options(title: str, program: str, options: Iterable[tuple[str, str]], kept: Collection[str]) -> None:
    """Raises InvalidRequest where further arguments would make something else of it than one job that runs once.

    options: each by its full name, with the word that it stands in. kept: the options that are not for the user.
    """
    for option, word in options:
        if option in kept:
            short = f", or write the option that {word!r} abbreviates in full" if _cut_short(word, option) else ""
            raise InvalidRequest(
                f"Perfloom sets {option} of {title}, or cannot record with it. Remove {word!r} "
                f"from the further arguments of {program}{short}.",
                ARGUMENTS,
            )


def _cut_short(word: str, option: str) -> bool:
    return word.startswith("--") and word.partition("=")[0] != option
