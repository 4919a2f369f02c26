"""What a page may not hold, whatever names it shows."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = frozenset(("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"))


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.faults: list[str] = []
        self.open: list[str] = []
        self.text: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        named = dict(attributes)
        if len(named) != len(attributes):
            self.faults.append(f"<{tag}> has an attribute twice: {attributes}")
        if "id" in named:
            self.ids.append(named["id"] or "")
        for name, value in attributes:
            if name.startswith("on") or name == "style":
                self.faults.append(f"<{tag} {name}={value!r}>")
            if name in ("href", "src", "action", "formaction"):
                self.links.append(value or "")
                if not (value or "").startswith(("/", "#", "?")) or (value or "").startswith("//"):
                    self.faults.append(f"<{tag} {name}={value!r}> leaves the server")
        if (
            tag == "script"
            and not str(named.get("src", "")).startswith("/static/")
            and named.get("type") != ("application/json")
        ):
            self.faults.append("a script in the page")
        # The only permitted frame shows an SVG of Perfloom, where no script runs.
        ours = str(named.get("src", "")).startswith(("/results/", "/compare/")) and "scripts" not in (
            named.get("sandbox") or "scripts"
        )
        if tag in ("style", "iframe", "object", "embed", "base", "img") and not (tag == "iframe" and ours):
            self.faults.append(f"<{tag}>: {attributes}")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"</{tag}> closes nothing")

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def read(page: str) -> _Reader:
    """A page as a browser that forgives nothing reads it. `faults`: everything that is wrong."""
    reader = _Reader()
    reader.feed(page)
    reader.close()
    if reader.open:
        reader.faults.append(f"never closed: {reader.open}")
    for id in reader.ids:
        if reader.ids.count(id) > 1:
            reader.faults.append(f"id twice: {id}")
    return reader
