"""``status``: brokers, topics and groups, once."""

from __future__ import annotations

from emulator.cli.asking import NAMESRV, AsJson, Namesrv, answer, answer_json, overview
from emulator.cli.errors import plain_errors
from emulator.cli.screens import cluster_screen


def status(namesrv: Namesrv = NAMESRV, as_json: AsJson = False) -> None:
    """Show a running cluster."""
    with plain_errors():
        found = overview(namesrv)
        if as_json:
            answer_json(found)
            return
        answer(cluster_screen(found))
