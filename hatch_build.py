"""The README and the URLs of the package's page in a package index.

A package index shows the README without the repository, so relative links and pictures do not
work there.  The build makes them absolute, and makes the URLs beside the page, from one address:
``home`` in pyproject.toml, or PROJECT_HOME.  Without an address, links become plain text and
pictures are removed.

Its reader has no clone, so the README's commands for one become those of an installed package
(``INSTALLED``), in the package's page and in the wheel.

The wheel has the pages of the documentation, for ``rmqemu docs``.
"""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

PICTURE = re.compile(r"!\[([^\]]*)\]\((?!https://)([^)]+)\)\n*")
MADE = {"target", "node_modules", "__pycache__", ".pytest_cache", ".cache"}
LINK = re.compile(r"\[([^\]]+)\]\((?!https://)([^)]+)\)")


INSTALLED = {  # by what the README says in a clone
    "make demo     #": "rmqemu demo   #",
    "make test     # linter, type checker and all tests\n": "",
    "pip install .                  #": "pip install rocketmq-emulator  #",
    "pip install '.[spark]'": "pip install 'rocketmq-emulator[spark]'",
    "`make docs` makes the pages a site that can be read\nwithout a network.": (
        "`rmqemu docs` shows all pages\nwithout a network."
    ),
    " `make live` counts a topic while a broker dies.": "",
}


class CustomMetadataHook(MetadataHookInterface):
    """Sets ``readme`` and ``urls``, which are dynamic in pyproject.toml."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Called by hatchling for wheels and for source distributions."""
        home = os.environ.get("PROJECT_HOME", self.config.get("home", "")).rstrip("/")
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        page = far_from_home(for_installed(text), home, f"v{metadata['version']}")
        metadata["readme"] = {"content-type": "text/markdown", "text": page}
        metadata["urls"] = urls(home, f"v{metadata['version']}")


class CustomBuildHook(BuildHookInterface[Any]):
    """Adds README.md, the pages below docs/ and the programs that they name to the wheel.

    They are in ``rocketmq_emulator/pages``; programs keep their folders there.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling; *version* is "editable" for a wheel that points to this clone."""
        if version == "editable":
            return
        docs = Path(self.root) / "docs"
        pages = {path: path.relative_to(docs) for path in docs.rglob("*.md")}
        self._made = tempfile.TemporaryDirectory()  # until the wheel is written
        readme = Path(self._made.name) / "README.md"
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        readme.write_text(for_installed(text), encoding="utf-8")
        pages[readme] = Path("README.md")
        for folder in ("examples", "testkits"):
            pages |= programs_below(Path(self.root) / folder)
        build_data["force_include"].update(
            {str(path): f"rocketmq_emulator/pages/{name}" for path, name in pages.items()}
        )


def programs_below(folder: Path) -> dict[Path, Path]:
    """The files of the programs in *folder*, by path; without what their tools made there."""
    found = (path for path in folder.rglob("*") if path.is_file())
    names = {path: path.relative_to(folder.parent) for path in found}
    return {path: name for path, name in names.items() if not MADE.intersection(name.parts)}


def for_installed(text: str) -> str:
    """The README for those who have no clone.  Raises ``ValueError`` if a command is not there."""
    for command, instead in INSTALLED.items():
        if command not in text:
            raise ValueError(f"README.md has no {command!r}: correct INSTALLED in hatch_build.py")
        text = text.replace(command, instead)
    return text


def far_from_home(text: str, home: str, tag: str) -> str:
    """The README with absolute links; without links and pictures if *home* is empty."""
    if not home:
        return LINK.sub(r"\1", PICTURE.sub("", text))
    text = PICTURE.sub(rf"![\1]({home}/raw/{tag}/\2)\n\n", text)
    return LINK.sub(rf"[\1]({home}/blob/{tag}/\2)", text)


def urls(home: str, tag: str) -> dict[str, str]:
    """The URLs beside the page; empty if *home* is empty."""
    if not home:
        return {}
    return {
        "Homepage": home,
        "Documentation": f"{home}/blob/{tag}/README.md#where-to-go-on",
        "Changelog": f"{home}/blob/{tag}/CHANGELOG.md",
        "Issues": f"{home}/issues",
        "Source": home,
    }
