"""The commands that use a running cluster, and ``status``, which only shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.cli import consume, groups, produce, topics
from emulator.cli.demo.command import demo
from emulator.cli.errors import plain_errors
from emulator.cli.screens import cluster_screen
from emulator.cli.shared import NAMESRV, AsJson, Namesrv, read_cluster, show, show_json

if TYPE_CHECKING:
    import typer


def add_tools(app: typer.Typer) -> None:
    """Give them to *app*; they are loaded with this module."""
    app.command()(demo)
    app.command()(status)
    app.command()(produce.produce)
    app.command()(consume.consume)
    app.add_typer(topics.app, name="topic")
    app.add_typer(groups.app, name="group")


def status(namesrv: Namesrv = NAMESRV, as_json: AsJson = False) -> None:
    """Show a running cluster."""
    with plain_errors():
        overview = read_cluster(namesrv)
        if as_json:
            show_json(overview)
        else:
            show(cluster_screen(overview))
