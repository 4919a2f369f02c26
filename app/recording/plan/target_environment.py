"""The environment of every command at a target: of probes, commands of the batch system and submissions.

Programs of a batch system are often found only after a module was loaded, or in a PATH that the target sets.
"""

from collections.abc import Sequence

from ...domain.targets import Target
from ..quoting import join, quote
from ..scripts import script_text


def environment_functions(target: Target) -> str:
    """sh: the functions `pl_set_environment`, which sets the target's variables and loads its modules, and
    `pl_find_modules`.

    pl_modules: not empty if there are modules; `pl_load` loads them and prints module's output.
    """
    lines = [
        f"pl_modules={'yes' if target.modules else ''}",
        *shell_function("pl_export", [f"export {name}={quote(value)}" for name, value in target.environment.items()]),
        *shell_function("pl_load", [join(("module", "load", *target.modules))] if target.modules else []),
    ]
    return "\n".join(lines) + "\n" + script_text("plan/modules.sh") + script_text("plan/target_environment.sh")


def in_target_environment(target: Target, argv: Sequence[str]) -> str:
    """sh: execute argv in the environment of the target."""
    if not target.modules and not target.environment:
        return f"exec {join(argv)}\n"
    return f"{environment_functions(target)}\npl_set_environment\nexec {join(argv)}\n"


def shell_function(name: str, commands: Sequence[str]) -> list[str]:
    """sh: a function of these commands, line by line."""
    return [f"{name}() {{", *(f"    {command}" for command in commands or ["true"]), "}"]
