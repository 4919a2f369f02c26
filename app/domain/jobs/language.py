"""The languages whose functions a job can name."""

from enum import StrEnum

from ..fields import ChoiceField, Option


class Language(StrEnum):
    """Whose functions get names for perf, in addition to those of compiled programs."""

    NONE = "none"
    PYTHON = "python"
    NODE = "node"
    JAVA = "java"


LANGUAGES = ChoiceField(
    Language,
    (
        Option(Language.NONE, "Compiled", "C, C++, Fortran, Rust, Go and other machine code with symbols."),
        Option(Language.PYTHON, "Python", "Names the functions of CPython from 3.9 on."),
        Option(Language.NODE, "Node.js", "Names JavaScript functions. Choose fp for whole stacks."),
        Option(Language.JAVA, "Java", "Names compiled methods, from Java 17 on. Choose fp for whole stacks."),
    ),
)
