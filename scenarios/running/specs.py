"""The cluster of a plan as the worlds want it."""

from __future__ import annotations

from emulator.cluster.spec import ClusterSpec
from scenarios.plan import Plan


def spec_of(plan: Plan) -> ClusterSpec:
    """Raises ``ValueError`` and ``BadField`` for a cluster that cannot be."""
    cluster = plan.cluster
    quirks = {"quirks": plan.quirks} if plan.quirks else {}
    return ClusterSpec(
        brokers=cluster.brokers,
        name_servers=cluster.name_servers,
        release=cluster.release,
        broker_settings={**quirks, **cluster.broker_settings},
        name_server_settings=cluster.name_server_settings,
        settings_of=cluster.settings_of,
    )
