"""A process in which a target has one field more: it prints where the field is found. `python -m … DATA`."""

import json
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

MODULE = "perfloom.domain.targets.target"
BEFORE = "    notes: str = declare("
DECLARATION = """    rack: int | None = declare(
        None,
        NumberField(-5, 99, "as a rack"),
        "Rack",
        "Where the machine is.",
        group="numbers",
        setting="Rack",
        option=option("--rack", help="Number of the rack."),
    )
"""


class DeclarationLoader(SourceFileLoader):
    """Loads the module with the declaration in it."""

    def get_code(self, fullname: str) -> CodeType:
        source = Path(self.path).read_text(encoding="utf-8")
        assert source.count(BEFORE) == 1
        code: CodeType = compile(source.replace(BEFORE, DECLARATION + BEFORE), self.path, "exec")
        return code


class DeclarationFinder:
    """Finds the module with that loader."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != MODULE:
            return None
        spec = PathFinder.find_spec(name, path)
        assert spec is not None and spec.origin is not None
        spec.loader = DeclarationLoader(name, spec.origin)
        return spec


def main(data: str) -> None:
    """Add a target with the field, and print what shows it."""
    sys.meta_path.insert(0, DeclarationFinder)
    from click.testing import CliRunner

    from perfloom.cli.group import cli
    from perfloom.config import Settings
    from perfloom.recording.fields.target_file import from_file
    from perfloom.web.app import create_app
    from tests.test_docs import load_script
    from tests.web.conftest import TOKEN, Browser

    def run(*words: str) -> Any:
        return CliRunner().invoke(cli, ["target", *words, "--data", data])

    added = run("add", "far", "--ssh", "node7", "--rack", "42")
    exported = run("export", "far").output
    app = create_app(Settings.load(Path(data), environ={}, token=TOKEN, runtime=Path(data) / "run"))
    browser = Browser(app.test_client())
    shown = {
        "status": added.exit_code,
        "help": run("add", "--help").output,
        "negative": run("add", "below", "--ssh", "node7", "--rack", "-3").exit_code,
        "error": str(run("add", "other", "--rack", "100", "--counters", "99").exception),
        "json": json.loads(run("show", "far", "--format", "json").output)["target"],
        "file": exported,
        "from_file": getattr(from_file(exported), "rack"),  # noqa: B009
        "form": browser.page("/targets/far/edit"),
        "posted": browser.post("/targets/far/edit", way="ssh", host="node7", rack="x").text,
        "page": browser.page("/targets/far"),
        "reference": load_script("generate").target_fields_page(),
    }
    app.extensions["perfloom"].queue.close()
    app.extensions["perfloom"].store.close()
    print(json.dumps(shown))


if __name__ == "__main__":
    main(sys.argv[1])
