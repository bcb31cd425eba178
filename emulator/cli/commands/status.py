"""``status``: brokers, topics and groups of a running cluster, and which brokers answer."""

from __future__ import annotations

from rocketmq_emulator.cli.options.errors import errors_as_exit_codes
from rocketmq_emulator.cli.options.shared import (
    NAMESRV,
    AsJson,
    Namesrv,
    check_complete,
    read_cluster,
    show_as,
)
from rocketmq_emulator.cli.screens.cluster_tables import cluster_screen


def status(namesrv: Namesrv = NAMESRV, as_json: AsJson = False) -> None:
    """Show a running cluster.  Exit code 5 if a broker of it does not answer."""
    with errors_as_exit_codes():
        overview = read_cluster(namesrv)
        show_as(overview, cluster_screen, as_json=as_json)
        check_complete(overview)
