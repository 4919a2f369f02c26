"""The pages of what runs on a device: perf.json of mllm, text traces of llama.cpp; and the unit of times, chosen once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from perfloom.domain.profile import Profile
from perfloom.readers import mllm
from tests.web.conftest import Browser
from tests.web.html import read

DATA = Path(__file__).parent.parent / "data"


def of_mllm() -> Profile:
    """Two types of device, operators within and beside one another, one block that is never freed."""
    with open(DATA / "mllm" / "perf.json", "rb") as file:
        return mllm.read(file, "perf.json")


def told(text: str) -> str:
    """What stands on a page, its blanks alike."""
    return " ".join(" ".join(read(text).text).split())


def test_a_unit_of_times_is_chosen_once_and_holds_everywhere(
    browser_client: Browser, stored: Callable[..., str]
) -> None:
    id = stored(of_mllm())
    stored(of_mllm(), "other0000000")
    pages = [f"/results/{id}{page}" for page in ("", "/flamegraph", "/timeline", "/hotspots", "/operators", "/memory")]
    pages += [f"/compare{page}?base={id}&other=other0000000" for page in ("", "/operators")]
    for page in pages:
        text = browser_client.page(f"{page}{'&' if '?' in page else '?'}unit=ns")
        links = [urlsplit(link) for link in read(text).links]
        own = [link for link in links if link.path.startswith((f"/results/{id}", "/compare"))]
        others = {(link.path, *parse_qs(link.query).get("unit", ())) for link in own if "/export/" not in link.path}
        without = {path for path, *unit in others if not unit and "/original/" not in path}
        # The one that takes it away again; what changes a result shows no times.
        assert without <= {page.split("?")[0], "/compare", f"/results/{id}/edit", f"/results/{id}/delete"}, page
        assert 'aria-current="true">ns</a>' in text and "µs" not in told(text).replace("Auto ns µs ms s", ""), page
    assert "50,000 ns" in told(browser_client.page(f"/results/{id}/operators?unit=ns&name=attention"))
    assert "0.0500 ms" in told(browser_client.page(f"/results/{id}/operators?unit=ms&name=attention"))
    assert "50.0 µs" in told(browser_client.page(f"/results/{id}/operators?name=attention")), "the next one is free"
    assert "unit is one of ns, us, ms, s" in told(browser_client.page(f"/results/{id}?unit=min", 400))
