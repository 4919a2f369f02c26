"""Shared by the batch systems: constant scripts, and the distinction between no answer and a rejected request."""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import NoReturn

from ...domain.errors import InvalidRequest, Unavailable, Unreachable
from ...domain.text import shorten

NOT_FOUND = 127
"""The exit status of a shell for a program that was not found."""
MISSING = re.compile(r"(\S+): (?:command )?not found|env: .(\w+).: No such file", re.ASCII)
OPTION = re.compile(
    r"\b(illegal|unrecognized|unrecognised|unknown|invalid|ambiguous|bad) option\b|"
    r"\boption\b.*\b(requires an argument|doesn.t allow an argument|is ambiguous)",
    re.I,
)
"""Messages about unknown or invalid options."""
USAGE = re.compile(r"^\s*usage\s*:.*|^Try [\"'].*--help.*$", re.I | re.M | re.S)
"""The start of a usage message."""
ARGUMENTS = "batch_arguments"
MAX_MESSAGE = 300
"""The maximum length of a batch system's message that is shown."""
ReasonAdvice = tuple[tuple[re.Pattern[str], str], ...]
"""(part of a reason, explanation for users, empty if there is nothing to explain); the first match counts."""


def script_argv(text: str, *arguments: str) -> tuple[str, ...]:
    """argv that runs a constant script with arguments. `text` must not contain user input."""
    return ("sh", "-c", text, "sh", *arguments)


def explain_words(title: str, words: str, reasons: ReasonAdvice) -> str:
    """The explanation of a batch system's reason, with its original text. Empty if there is nothing to explain."""
    for pattern, advice in reasons:
        if pattern.search(words):
            return f"{advice} ({words})" if advice else ""
    return f"{title}'s reason: {words}." if words else ""


def hours_and_minutes(seconds: int) -> tuple[int, int]:
    """(hours, minutes), rounded up: batch systems count in minutes."""
    return divmod(-(-seconds // 60), 60)


@dataclass(frozen=True)
class AnswerParser:
    """The messages of a batch system. noise: a prefix of each line. no_answer: messages of its programs if it does not
    answer. refusals: (pattern of a rejection, form field, advice); the first match counts. Unknown options (OPTION) are
    checked first, because the usage message after them mentions queues, projects and so on."""

    title: str
    noise: re.Pattern[str]
    no_answer: re.Pattern[str]
    refusals: tuple[tuple[str, str, str], ...]

    def clean_text(self, text: str) -> str:
        """Its message as one sentence, without noise and shortened."""
        lines = [self.noise.sub("", line).strip().rstrip(".") for line in text.splitlines()]
        return shorten(". ".join(dict.fromkeys(line for line in lines if line)), MAX_MESSAGE)

    def check_answered(self, program: str, stderr: str, status: int) -> None:
        """Raises Unavailable if the program is missing, Unreachable if the batch system does not answer."""
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
        """The same, and Unreachable if the program failed: with an incomplete list, jobs would seem to be gone."""
        self.check_answered(program, stderr, status)
        if status:
            words = self.clean_text(stderr) or f"{program} ended {status}"
            raise Unreachable(f"{self.title} does not respond as expected: {words}.")

    def raise_refused(self, text: str) -> NoReturn:
        """Raises InvalidRequest for a rejected job, with its message and advice."""
        words = self.clean_text(USAGE.sub("", text)) or self.clean_text(text)
        message = f"{self.title} rejected the job: {words or 'no reason was given'}."
        if OPTION.search(text):
            raise InvalidRequest(f"{message} Correct or remove that option in the further arguments.", ARGUMENTS)
        for pattern, field, advice in self.refusals:
            if re.search(pattern, words, re.I):
                raise InvalidRequest(f"{message} {advice}", field)
        raise InvalidRequest(message)


def reject_options(title: str, program: str, options: Iterable[tuple[str, str]], reserved: Collection[str]) -> None:
    """Raises InvalidRequest for additional arguments that would not result in one job that runs once.

    options: each by its full name, with the argument that contains it. kept: the options that Perfloom itself sets.
    """
    for option, word in options:
        if option in reserved:
            short = f", or write the option that {word!r} abbreviates in full" if _cut_short(word, option) else ""
            raise InvalidRequest(
                f"Perfloom sets {option} of {title}, or cannot record with it. Remove {word!r} "
                f"from the further arguments of {program}{short}.",
                ARGUMENTS,
            )


def _cut_short(word: str, option: str) -> bool:
    return word.startswith("--") and word.partition("=")[0] != option
