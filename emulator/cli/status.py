"""``status``: what a running cluster is made of, and what of it answers."""

from __future__ import annotations

from emulator.cli.errors import plain_errors
from emulator.cli.screens import cluster_screen
from emulator.cli.shared import NAMESRV, AsJson, Namesrv, check_complete, read_cluster, show_as


def status(namesrv: Namesrv = NAMESRV, as_json: AsJson = False) -> None:
    """Show a running cluster.  Exit code 5 if a broker of it does not answer."""
    with plain_errors():
        overview = read_cluster(namesrv)
        show_as(overview, cluster_screen, as_json=as_json)
        check_complete(overview)
