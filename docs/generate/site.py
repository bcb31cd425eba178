"""The pages as a site that loads nothing from a network: `make docs`.

MkDocs wants all files in one folder.  So the pages are collected there, with the files of the
repository that they link to, at the places that they have here: each link stays as it is.  MkDocs
then checks every link and anchor, and an unknown one is an error.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SITE, PAGES = ROOT / ".cache" / "site", ROOT / ".cache" / "pages"
CONFIG = ROOT / "docs" / "generate" / "mkdocs.yml"
STYLE = ROOT / "docs" / "generate" / "site.css"
LINK = re.compile(r"\]\(([^)\s#]+)(?:#[^)\s]*)?\)")


def main() -> None:
    collect(PAGES)
    build(PAGES, SITE)
    print(f"{SITE.relative_to(ROOT)}/index.html")  # noqa: T201  # the result of the command


def collect(folder: Path) -> None:
    """Empty *folder*, then copy all pages and the files that they link to into it."""
    shutil.rmtree(folder, ignore_errors=True)
    for page in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")):
        _copy(page, folder)
        for link in LINK.findall(page.read_text()):
            target = (page.parent / link).resolve()
            if "://" not in link and target.suffix != ".md":
                _copy(target, folder)
    shutil.copy(STYLE, folder / STYLE.name)


def build(pages: Path, site: Path, config: Path = CONFIG) -> None:
    """Build the *site* of *pages*.  Raises ``SiteRefused`` for a dead link, or a page too many."""
    shutil.rmtree(site, ignore_errors=True)
    places = pages.parent / "mkdocs.yml"
    places.write_text(f"docs_dir: {pages}\nsite_dir: {site}\nINHERIT: {config}\n")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(places)]
    done = subprocess.run(  # noqa: S603  # the interpreter that runs this
        command, cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SiteRefused(done.stderr)
    (site / "404.html").unlink()  # only a server shows it


class SiteRefused(Exception):
    """MkDocs refused the pages; the text has its warnings."""


def slug(heading: str, separator: str) -> str:
    """The anchor of a heading, as the pages' links have it."""
    return heading.lower().replace(" ", separator)


def _copy(file: Path, folder: Path) -> None:
    place = folder / file.relative_to(ROOT)
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(file, place)


if __name__ == "__main__":
    main()
