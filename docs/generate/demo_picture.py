"""docs/demo.svg: the demo's own screen, drawn while it runs, when both kills are behind it.

    python -m docs.generate.demo_picture [SECONDS]

A real run of the demo, of which only the moment and the width are chosen here.
"""

from __future__ import annotations

import sys
import tempfile
import time

import trio
from rich.console import Console
from rich.terminal_theme import SVG_EXPORT_THEME

from docs.generate.sections import DOCS
from emulator.cli.demo.command import SAMPLE
from emulator.cli.demo.members import stop_all
from emulator.cli.demo.plan import Plan
from emulator.cli.demo.run import DemoRun
from emulator.cli.demo.screen import DemoScreen
from emulator.cluster.processes import ProcessCluster
from emulator.cluster.spec import ClusterSpec

PICTURE = DOCS / "demo.svg"
COLUMNS = 90
MOMENT_S = 21.5
LOOK_S = 0.2
# Rich's own frame without its web fonts: a picture in a page loads nothing from anywhere.
FRAME = """\
<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: "DejaVu Sans Mono", Menlo, Consolas, monospace; \
font-size: {char_height}px; line-height: {line_height}px }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: sans-serif }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">\
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" /></clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def main(moment_s: float = MOMENT_S) -> None:
    lines = sum(bool(line.strip()) for line in SAMPLE.read_bytes().splitlines())
    with (
        tempfile.TemporaryDirectory(prefix="rmqemu-picture-") as store,
        ProcessCluster(ClusterSpec(brokers=2, store=store)) as cluster,
    ):
        run = DemoRun(cluster, Plan(), str(SAMPLE), lines, lambda _event: None)
        trio.run(_play, run, moment_s)


async def _play(run: DemoRun, moment_s: float) -> None:
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run.play)
            screen = DemoScreen(run)
            while run.now_s < moment_s:
                screen.draw(time.time_ns() // 1_000_000)  # it compares with its last second
                await trio.sleep(LOOK_S)
            _save(screen)
            nursery.cancel_scope.cancel()
    finally:
        stop_all(list(run.members.values()))


def _save(screen: DemoScreen) -> None:
    with open("/dev/null", "w") as nowhere:  # noqa: PTH123  # a console wants a file
        console = Console(record=True, width=COLUMNS, file=nowhere, force_terminal=True)
        console.print(screen.draw(time.time_ns() // 1_000_000))
    svg = console.export_svg(title="make demo", theme=SVG_EXPORT_THEME, code_format=FRAME)
    PICTURE.write_text("\n".join(line.rstrip() for line in svg.splitlines()) + "\n")


if __name__ == "__main__":
    main(*map(float, sys.argv[1:]))
