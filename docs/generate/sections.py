"""The generated part of a page is between two comments; the rest is written by hand."""

from __future__ import annotations

from pathlib import Path

DOCS = Path(__file__).resolve().parent.parent


def with_section(page: str, name: str, text: str) -> str:
    """*page* with *text* as its section *name*.  Raises ``ValueError`` if there is none."""
    begin, end = f"<!-- {name}: written by make page -->\n", f"\n<!-- end of {name} -->"
    before, found, rest = page.partition(begin)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise ValueError(f"the page has no section {name}")
    return f"{before}{begin}\n{text.strip()}\n{end}{after}"


def write_section(path: Path, name: str, text: str) -> None:
    path.write_text(with_section(path.read_text(), name, text))
