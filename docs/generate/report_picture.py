"""Takes the picture of docs/reports.md: the page of a real run, in a headless Chromium.

python -m docs.generate.report_picture
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from docs.generate.sections import DOCS

PICTURE = DOCS / "reports.png"
SCENARIO, SEED = "broker_dies", 1
WIDTH, HEIGHT = 1000, 760
RMQEMU = [sys.executable, "-m", "emulator"]


def main() -> None:
    sys.path[:0] = [
        str(DOCS.parent / "tests"),
        str(DOCS.parent / "tests" / "scenarios" / "report"),
    ]
    from headless import Browser  # noqa: PLC0415  # the tests' own

    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "run.html"
        run = [*RMQEMU, "run", SCENARIO, "--seed", str(SEED), "--journal", folder, "--no-cache"]
        subprocess.run(run, check=False)  # noqa: S603  # a verdict is an exit code
        subprocess.run([*RMQEMU, "report", folder, "-o", str(page)], check=True)  # noqa: S603
        browser = Browser()
        browser.tell("open", page.as_uri(), width=WIDTH, height=HEIGHT)
        browser.tell("picture", str(PICTURE))
        browser.stop()


if __name__ == "__main__":
    main()
