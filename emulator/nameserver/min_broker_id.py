"""5.x: replicas hear when the smallest id of their broker name is another one.

It decides who may act as the master.  Upstream asks over a connection of its own; here
the push goes out over the one the replica registered on.
Upstream: RouteInfoManager.notifyMinBrokerIdChanged, chooseBrokerAddrsToNotify.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from protocol.requests.registration import NotifyMinBrokerIdChangeRequest

if TYPE_CHECKING:
    from emulator.nameserver.brokers import Replicas


class IdsChanged(NamedTuple):
    """The replica with the smallest id left, or one with a smaller id came."""

    replicas: Replicas
    gone_address: str | None = None
    came_ha_address: str | None = None


def notification(change: IdsChanged) -> NotifyMinBrokerIdChangeRequest:
    replicas = change.replicas
    return NotifyMinBrokerIdChangeRequest(
        min_broker_id=replicas.smallest_id,
        broker_name=replicas.broker,
        min_broker_addr=replicas.addresses[replicas.smallest_id],
        offline_broker_addr=change.gone_address,
        ha_broker_addr=change.came_ha_address,
    )


def who_hears(change: IdsChanged) -> list[str]:
    """Addresses: all after a loss, all but the newcomer itself after an arrival."""
    addresses = change.replicas.addresses
    if change.gone_address is not None or len(addresses) == 1:
        return list(addresses.values())
    smallest = change.replicas.smallest_id
    return [address for number, address in addresses.items() if number != smallest]
