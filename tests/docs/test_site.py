"""The pages as a site: no dead links, no page left out, nothing loaded from a network."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs.generate import site
from tests.support.paths import ROOT

LOADED = re.compile(
    r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']?([^"'\s>]+)|<link\b[^>]*\bhref=["']?([^"'\s>]+)"""
    r"""|url\(["']?([^"')]+)|@import\s+["']([^"']+)"""
)


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """The whole site; building raises an error for a dead link and for a page without a place."""
    folder = tmp_path_factory.mktemp("site")
    site.collect(folder / "pages")
    site.build(folder / "pages", folder / "site")
    return folder / "site"


def test_every_page_is_on_the_site(built) -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        place = page.relative_to(ROOT).with_suffix(".html")
        assert (built / place).exists(), place
    assert (built / "index.html").exists()


def test_the_site_loads_its_own_files_only(built) -> None:
    loaded = 0
    for file in (*built.rglob("*.html"), *built.rglob("*.css")):
        for found in LOADED.findall(file.read_text()):
            (link,) = filter(None, found)
            if link.startswith("data:"):
                continue
            assert "//" not in link, f"{file.relative_to(built)} loads {link}"
            path = re.sub(r"[?#].*", "", link)
            assert (file.parent / path).exists(), f"{file.relative_to(built)} misses {link}"
            loaded += 1
    assert loaded > 200


def test_a_dead_link_and_a_page_without_a_place_are_refused(tmp_path) -> None:
    pages, config = tmp_path / "pages", tmp_path / "small.yml"
    config.write_text(site.CONFIG.read_text().partition("nav:")[0] + "nav:\n  - README.md\n")
    pages.mkdir()
    (pages / "site.css").touch()
    first = pages / "README.md"
    first.write_text("# One\n\n[one](README.md#one)\n")
    site.build(pages, tmp_path / "site", config)
    first.write_text("# One\n\n[two](README.md#two) [three](three.md)\n")
    (pages / "new.md").write_text("# New\n")
    with pytest.raises(site.SiteRefused) as refused:
        site.build(pages, tmp_path / "site", config)
    for named in ("'README.md#two'", "'three.md'", "new.md"):
        assert named in str(refused.value)
