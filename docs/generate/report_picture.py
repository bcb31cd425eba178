"""Screenshots of reports for docs/: pages of real runs, in a headless Chromium.

python -m docs.generate.report_picture
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from docs.generate.sections import DOCS

SEED = 1
RMQEMU = [sys.executable, "-m", "rocketmq_emulator"]


class ReportPicture(NamedTuple):
    """``scenario``: its name, or the page whose first program it is; the size in pixels."""

    file: Path
    scenario: str
    width: int
    height: int


PICTURES = (
    ReportPicture(DOCS / "reports.png", "broker_dies", 1000, 760),
    ReportPicture(DOCS / "hangs.png", "script-a-failure.md", 1000, 1180),
)


def main() -> None:
    from tests.support.headless import Browser  # noqa: PLC0415  # the tests' own

    browser = Browser()
    for picture in PICTURES:
        with tempfile.TemporaryDirectory() as folder:
            page = _page(picture.scenario, Path(folder))
            for scheme in ("dark", "light") if "--look" in sys.argv else ("light",):
                browser.tell(
                    "open",
                    page.as_uri(),
                    width=picture.width,
                    height=picture.height,
                    scheme=scheme,
                )
                is_kept = scheme == "light"
                file = picture.file if is_kept else picture.file.with_suffix(f".{scheme}.png")
                browser.tell("picture", str(file))
    browser.stop()


def _page(scenario: str, folder: Path) -> Path:
    """The path of the HTML report of a run of *scenario*."""
    if scenario.endswith(".md"):
        program = (DOCS / scenario).read_text().split("```python\n")[1].split("```")[0]
        file = folder / "hangs.py"
        file.write_text(program)
        scenario = str(file)
    journals, page = folder / "journals", folder / "run.html"
    run = [*RMQEMU, "run", scenario, "--seed", str(SEED), "--journal", str(journals)]
    subprocess.run([*run, "--no-cache"], check=False)  # noqa: S603  # a verdict is an exit code
    subprocess.run([*RMQEMU, "report", str(journals), "-o", str(page)], check=True)  # noqa: S603
    return page


if __name__ == "__main__":
    main()
