"""What the package's page has that the repository's files do not say themselves.

A package index shows the README far from its repository: there a relative link leads
nowhere and a picture is missing.  So links and pictures are made absolute, and the URLs
beside the page are made, from one address: ``home`` in pyproject.toml, or PROJECT_HOME.
While there is no address, links become plain text and pictures are left out.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

PICTURE = re.compile(r"!\[([^\]]*)\]\((?!https://)([^)]+)\)\n*")
LINK = re.compile(r"\[([^\]]+)\]\((?!https://)([^)]+)\)")


class CustomMetadataHook(MetadataHookInterface):
    """Adds ``readme`` and ``urls``, which pyproject.toml calls dynamic."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Called by hatchling, for a wheel as for a source distribution."""
        home = os.environ.get("PROJECT_HOME", self.config.get("home", "")).rstrip("/")
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        page = far_from_home(text, home, f"v{metadata['version']}")
        metadata["readme"] = {"content-type": "text/markdown", "text": page}
        metadata["urls"] = urls(home, f"v{metadata['version']}")


def far_from_home(text: str, home: str, tag: str) -> str:
    """The README as it is read anywhere else."""
    if not home:
        return LINK.sub(r"\1", PICTURE.sub("", text))
    text = PICTURE.sub(rf"![\1]({home}/raw/{tag}/\2)\n\n", text)
    return LINK.sub(rf"[\1]({home}/blob/{tag}/\2)", text)


def urls(home: str, tag: str) -> dict[str, str]:
    """What stands beside the page; nothing while there is no address."""
    if not home:
        return {}
    return {
        "Homepage": home,
        "Documentation": f"{home}/blob/{tag}/README.md#read-on",
        "Changelog": f"{home}/blob/{tag}/CHANGELOG.md",
        "Issues": f"{home}/issues",
        "Source": home,
    }
