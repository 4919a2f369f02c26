"""The page of hotspots over HTTP."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.profiles import profile_of
from tests.web.conftest import Browser

PAGE = "/results/ordinary0000/hotspots"
ONLY_PYTHON = "show=%5Epy%3A%3A"


def test_python_functions_can_be_shown_alone(stored: Callable[..., str], browser_client: Browser) -> None:
    stored(profile_of([(("py::main:/a.py", "_PyEval_EvalFrameDefault"), 7), (("_PyEval_EvalFrameDefault",), 1)]))
    page = browser_client.page(PAGE)
    assert f'{PAGE}?{ONLY_PYTHON}">Show only Python functions</a>' in page
    only = browser_client.page(f"{PAGE}?{ONLY_PYTHON}")
    assert "py::main" in only and "Show only Python" not in only
    assert browser_client.page(f"{PAGE}.csv?{ONLY_PYTHON}").splitlines()[1].split(",")[4] == "7"


@pytest.mark.parametrize("names", [("py::main:/a.py",), ("main",)])
def test_nothing_is_offered_where_all_functions_are_of_one_language(
    stored: Callable[..., str], browser_client: Browser, names: tuple[str, ...]
) -> None:
    stored(profile_of([(names, 7)]))
    assert "Show only Python" not in browser_client.page(PAGE)
