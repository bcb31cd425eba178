"""The pictures of docs/studies: plots of a study's own page, saved as SVG by a Chromium."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from docs.generate.sections import DOCS

if TYPE_CHECKING:
    from docs.generate.studies import Drawing

PAPER = '<rect width="100%" height="100%" fill="#ffffff"/>'


def draw(drawing: Drawing, folder: Path, file: Path) -> None:
    """The plot of a page that was made before, on white: it is seen in dark pages, too."""
    sys.path[:0] = [str(DOCS.parent / "tests")]
    from headless import Browser  # noqa: PLC0415  # the tests' own

    browser = Browser()
    try:
        page = folder / drawing.sweep / "study.html"
        browser.tell("open", page.resolve().as_uri(), width=1280, height=900)
        browser.tell("eval", _choose("metric", drawing.metric))
        for field, value in drawing.choices.items():
            browser.tell("eval", _choose(field, value))
        address = browser.tell(
            "eval",
            f"Plotly.toImage(document.querySelector('#{drawing.plot} .plot'), "
            f"{{format: 'svg', width: {drawing.width}, height: {drawing.height}}})",
        )
    finally:
        browser.stop()
    svg = unquote(address.partition(",")[2])
    file.write_text(re.sub(r"(<svg[^>]*>)", rf"\1{PAPER}", svg, count=1) + "\n")


def _choose(field: str, text: str) -> str:
    """Script that chooses what reads *text* in the field of that id, or of that parameter."""
    return (
        "(() => { const labels = [...document.querySelectorAll('#bar label')];"
        f"const select = labels.find(label => label.textContent.startsWith({field!r} + ' ') "
        f"|| label.querySelector('select').id === {field!r}).querySelector('select');"
        f"select.value = [...select.options].find(it => it.textContent === {text!r}).value;"
        "select.dispatchEvent(new Event('change')); })()"
    )
