"""/tracer: the header that traces C and C++ programs, to download, with instructions."""

from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import ClassVar

from flask import Blueprint
from werkzeug.wrappers import Response

from ..rendering import Page, render

blueprint = Blueprint("tracer", __name__)
HEADER = "perfloom_trace.h"
EXAMPLES = (
    ("C", "example.c", "cc -O2 -DPERFLOOM_TRACE -pthread example.c -o example"),
    ("C++", "example.cpp", "c++ -O2 -DPERFLOOM_TRACE -pthread example.cpp -o example"),
)
"""Language, file, and the command that compiles it."""
API_CALLS = (
    ("start_tracing_session()", "Starts recording."),
    ("stop_tracing_session(path)", "Writes everything that was recorded to a file."),
    ("begin_trace(name, mark)", "Begins a slice. mark: a char array with room for the name and 21 characters."),
    ("end_trace(mark)", "Ends the slice, in any block or function."),
    ("PERFLOOM_SCOPE(name)", "A slice from here to the end of the block."),
    ("PERFLOOM_COUNTER(name, value)", "The value of a counter at this time."),
)


@dataclass(frozen=True)
class Example:
    """A complete traced program. compile: the command."""

    language: str
    file: str
    code: str
    compile: str


@dataclass(frozen=True)
class TracerPage(Page):
    """`/tracer`. calls: with descriptions."""

    template: ClassVar[str] = "tracer.html"
    header: str
    calls: tuple[tuple[str, str], ...]
    examples: tuple[Example, ...]


@blueprint.get("/tracer")
def show() -> Response:
    """The page."""
    examples = tuple(Example(language, file, _text(file), command) for language, file, command in EXAMPLES)
    return render(TracerPage(header=HEADER, calls=API_CALLS, examples=examples))


@cache
def _text(file: str) -> str:
    return (resources.files("perfloom") / "static" / "tracers" / file).read_text(encoding="utf-8")
