"""/tracer: the header that traces C and C++ programs, to download, with what there is to know to use it."""

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
    ("start_tracing_session()", "Records from now on."),
    ("stop_tracing_session(path)", "Writes all that was recorded."),
    ("begin_trace(name, mark)", "A piece of work begins. mark: a char array with room for the name and 21 characters."),
    ("end_trace(mark)", "It ends, in whatever block or function."),
    ("PERFLOOM_SCOPE(name)", "A piece of work from here to the end of the block."),
    ("PERFLOOM_COUNTER(name, value)", "A value at this time."),
)


@dataclass(frozen=True)
class Example:
    """A whole program that is traced. compile: the command."""

    language: str
    file: str
    code: str
    compile: str


@dataclass(frozen=True)
class TracerPage(Page):
    """`/tracer`. calls: with what each does."""

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
