"""Violations of WCAG 2.2 A and AA that axe finds on a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from axe_playwright_python.base import AXE_SCRIPT

if TYPE_CHECKING:
    from playwright.sync_api import Page

RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
COLOURS = {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}


def faults(page: Page, *, colours_only: bool = False) -> list[str]:
    """All violations on the page in its present state.

    `colours_only`: only with the color rules, for a page that has no other violations.
    """
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(AXE_SCRIPT)
    # The header stays at the top: an element scrolled halfway below it would be judged by its visible half.
    page.evaluate("() => scrollTo(0, 0)")
    # Without a report of passed checks, which takes longer than finding violations.
    options = {"runOnly": COLOURS if colours_only else RULES, "resultTypes": ["violations"]}
    found = page.evaluate("(options) => axe.run(options)", options)
    return [
        f"{violation['id']}: {violation['help']}: {node['html'][:200]} {node.get('failureSummary', '')}"
        for violation in found["violations"]
        for node in violation["nodes"]
    ]


def faults_in_both_schemes(page: Page) -> list[str]:
    """Violations in light colors, and those that dark colors add; ends in light ones."""
    page.emulate_media(color_scheme="light")
    light = faults(page)
    page.emulate_media(color_scheme="dark")
    dark = [f"dark: {fault}" for fault in faults(page, colours_only=True)]
    page.emulate_media(color_scheme="light")
    return light + dark
