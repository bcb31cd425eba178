"""CHANGELOG.md has one list of features, and each line links to a page."""

from __future__ import annotations

import re

from tests.support.paths import ROOT

TEXT = (ROOT / "CHANGELOG.md").read_text()
HISTORY = ("no longer", "mended", "fixed", "corrected", "used to", "was renamed", "instead of 2")
LINE_LINK = re.compile(r"\]\(([\w/.-]+)(?:#[\w-]+)?\)")


def lines() -> list[str]:
    return [line for line in TEXT.splitlines() if line.startswith("- ")]


def test_each_line_leads_to_the_page_that_documents_it() -> None:
    assert len(lines()) > 30
    for line in lines():
        assert LINE_LINK.search(line), f"no link to a page: {line}"


def test_every_page_is_reached() -> None:
    linked = {path for line in lines() for path in LINE_LINK.findall(line)}
    pages = {page.relative_to(ROOT).as_posix() for page in (ROOT / "docs").rglob("*.md")}
    assert pages - linked == set()


def test_an_unpublished_version_has_one_list_and_no_history() -> None:
    assert re.findall(r"^## (\S+)", TEXT, re.MULTILINE) == ["0.1.0"]
    for line in lines():
        assert not any(words in line.lower() for words in HISTORY), line
