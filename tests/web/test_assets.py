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


def test_dark_colours_are_the_same_by_choice_and_by_system(root: Path) -> None:
    text = (root / "static/css/tokens.css").read_text()
    light = dict(re.findall(r"(--[\w-]+): ([^;]+);", text.split("@media")[0]))
    by_system = text.split('data-theme="light"]) {')[1].split("}")[0]
    by_choice = text.split('data-theme="dark"] {')[1].split("}")[0]
    assert by_system.split() == by_choice.split()
    dark = dict(re.findall(r"(--[\w-]+): ([^;]+);", by_choice))
    measures = {"--font", "--mono", "--size", "--size-small", "--size-tiny", "--gap", "--gutter", "--radius", "--top"}
    assert set(light) - set(dark) == measures


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
    text = (root / "static/css/tokens.css").read_text()
    part = text.split("@media")[0] if theme == "light" else text.split('data-theme="dark"] {')[1]
    colour = dict(re.findall(r"(--[\w-]+): (#[0-9a-f]{6});", part))
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
