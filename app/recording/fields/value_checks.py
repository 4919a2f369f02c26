"""What makes one value unfit, whatever field it stands in: a sentence that says what to do, or None."""

from .command_line import MAX_ARGUMENT_BYTES


def text_error(value: str, what: str) -> str | None:
    """What makes a text unfit as an argument, variable or path of a program."""
    try:
        length = len(value.encode())
    except UnicodeEncodeError:
        return f"{what} contains bytes that are not UTF-8, which a job cannot store. Rename the file, or link to it."
    if "\0" in value:
        return f"{what} contains a zero byte, which cannot be passed to a program. Remove it."
    if length > MAX_ARGUMENT_BYTES:
        return f"{what} has {length:,} bytes. The kernel's limit is {MAX_ARGUMENT_BYTES:,}. Put the text into a file."
    return None


def path_error(value: str, what: str) -> str | None:
    """What makes a text unfit as an absolute path."""
    problem = text_error(value, what)
    if problem is None and not value.startswith("/"):
        return f"{what} “{value[:80]}” is not an absolute path. Start it with /."
    if problem is None and len(value) > 4096:
        return f"The path of {what[:1].lower()}{what[1:]} has {len(value):,} characters. Linux allows 4,096."
    return problem


def first_error(*problems: str | None) -> str | None:
    """The first thing that is wrong, None where nothing is."""
    return next(filter(None, problems), None)
