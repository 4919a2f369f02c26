"""Static files: versions, packing, and nothing from outside the folder."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest
from flask.testing import FlaskClient

from perfloom.web.assets import version_of


def addresses(client: FlaskClient) -> list[str]:
    return re.findall(r'(?:href|src)="(/static/[^"]+)"', client.get("/login").text)


def test_a_page_names_files_by_version_and_a_browser_may_keep_them(client: FlaskClient) -> None:
    found = addresses(client)
    assert len(found) >= 5
    for address in found:
        response = client.get(address)
        assert response.status_code == 200, address
        assert "immutable" in response.headers["Cache-Control"]
        assert "Set-Cookie" not in response.headers


def test_without_the_version_it_is_asked_for_again(client: FlaskClient) -> None:
    response = client.get("/static/css/base.css")
    assert response.headers["Cache-Control"] == "no-cache"
    again = client.get("/static/css/base.css", headers={"If-None-Match": response.headers["ETag"]})
    assert (again.status_code, again.data) == (304, b"")
    assert client.get("/static/v-000000000000/css/base.css").headers["Cache-Control"] == "no-cache"


def test_text_is_packed_where_the_browser_takes_it(client: FlaskClient) -> None:
    plain = client.get("/static/css/base.css")
    packed = client.get("/static/css/base.css", headers={"Accept-Encoding": "br, gzip"})
    assert packed.headers["Content-Encoding"] == "gzip" and "Content-Encoding" not in plain.headers
    assert gzip.decompress(packed.data) == plain.data
    assert len(packed.data) == int(packed.headers["Content-Length"]) < len(plain.data)
    assert packed.headers["ETag"] != plain.headers["ETag"]
    assert "Accept-Encoding" in plain.headers["Vary"]
    refused = client.get("/static/css/base.css", headers={"Accept-Encoding": "gzip;q=0"})
    assert "Content-Encoding" not in refused.headers


@pytest.mark.parametrize(
    "path", ["../web.py", "..%2f..%2fsetup.cfg", "v-1/../../web.py", "/etc/passwd", "", "css", "css/no.css", "a%00b"]
)
def test_nothing_else_is_served(client: FlaskClient, path: str) -> None:
    assert client.get(f"/static/{path}").status_code in (401, 404)


def test_modules_have_a_type_that_a_browser_runs(client: FlaskClient) -> None:
    assert client.get("/static/js/main.js").mimetype == "text/javascript"


def test_the_version_follows_names_and_contents(tmp_path: Path) -> None:
    (tmp_path / "a.css").write_text("x")
    before = version_of(tmp_path)
    (tmp_path / "a.css").write_text("y")
    changed = version_of(tmp_path)
    (tmp_path / "a.css").rename(tmp_path / "b.css")
    assert len({before, changed, version_of(tmp_path)}) == 3


MEASURES = {"--font", "--mono", "--size", "--size-small", "--size-tiny", "--gap", "--gutter", "--radius", "--top"}
"""The properties of tokens.css that are no colors."""


def properties(sheet: str) -> dict[str, str]:
    """The custom properties that a style sheet sets on the page."""
    return {
        name: value
        for block in re.findall(r":root \{([^}]*)\}", sheet)
        for name, value in re.findall(r"(--[\w-]+): ([^;]+);", block)
    }


def test_each_dark_color_is_defined_once(root: Path) -> None:
    """Dark values are those of dark.css alone, and each has a light value, which no other sheet sets."""
    folder = root / "static/css"
    sheets = {path.stem: path.read_text() for path in folder.glob("*.css")}
    dark = properties(sheets["dark"])
    assert len(dark) == len(re.findall(r"^\s*--[\w-]+:", sheets.pop("dark"), re.MULTILINE))
    for name, text in sheets.items():
        assert "prefers-color-scheme" not in text and "data-theme" not in text, name
    light = [name for text in sheets.values() for name in properties(text) if name in dark]
    assert sorted(light) == sorted(dark)
    # What stays as it is: measures, fonts, and the tones of charts, which hold on light and on dark.
    tokens = set(properties(sheets["tokens"])) - set(dark)
    assert {name for name in tokens if not name.startswith("--series-")} == MEASURES


def luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_contrast(root: Path, theme: str) -> None:
    """WCAG 2 AA: 4.5 for text, 3 for the edges of controls and focus (1.4.3, 1.4.11)."""
    colour = properties((root / f"static/css/{'tokens' if theme == 'light' else 'dark'}.css").read_text())
    grounds = ["--bg", "--surface", "--raised"]
    for name in ("--text", "--text-2", "--text-3", "--accent", "--more", "--less"):
        for ground in grounds:
            assert contrast(colour[name], colour[ground]) >= 4.5, (name, ground)
    for name in ("good", "warn", "bad", "busy"):
        for ground in (f"--{name}-soft", "--surface"):
            assert contrast(colour[f"--{name}"], colour[ground]) >= 4.5, (name, ground)
    for name in ("good", "warn", "bad"):
        assert contrast(colour["--text"], colour[f"--{name}-soft"]) >= 4.5, name
    assert contrast(colour["--on-accent"], colour["--accent"]) >= 4.5
    assert contrast(colour["--surface"], colour["--bad"]) >= 4.5
    for ground in grounds:
        assert contrast(colour["--line-strong"], colour[ground]) >= 3
        assert contrast(colour["--focus"], colour[ground]) >= 3
    for name in [n for n in colour if n.startswith("--kind-")]:
        assert contrast(colour["--on-kind"], colour[name]) >= 4.5, name
