"""The commands that use a running cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.cli import consume, groups, produce, status, topics
from emulator.cli.demo.command import demo

if TYPE_CHECKING:
    import typer


def add_tools(app: typer.Typer) -> None:
    app.command()(demo)
    app.command()(status.status)
    app.command()(produce.produce)
    app.command()(consume.consume)
    app.add_typer(topics.app, name="topic")
    app.add_typer(groups.app, name="group")
