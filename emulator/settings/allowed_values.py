"""The checks of single settings: addresses, delay levels, the controllers of a group.

Each raises ``ValueError`` with the rest of a sentence that begins with the setting's name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rocketmq_emulator.protocol.messages.delay_levels import parse_delay_levels
from rocketmq_emulator.protocol.versions import BROKER_IDS_APPLIED
from rocketmq_emulator.settings.releases import JRAFT_CONTROLLERS, Release, known_release
from rocketmq_emulator.settings.setting_rules import Relation
from rocketmq_emulator.text.values import check_connect_address

CONTROLLERS_MAX = 9  # ours: of a group


def check_delay_levels(text: str) -> None:
    """Raises ``ValueError`` unless *text* has delay levels."""
    if not parse_delay_levels(text).is_valid:
        raise ValueError(f"delay levels look like 1s 5s 1m 2h 1d, not {text!r}")


def check_targets(addresses: Sequence[str]) -> None:
    """Raises ``ValueError`` unless *addresses* are those of servers."""
    if isinstance(addresses, str):
        raise ValueError(f"it is a list of addresses, not the text {addresses!r}")  # noqa: TRY004
    for address in addresses:
        check_connect_address(address)


def check_advertised(address: str) -> None:
    """Raises ``ValueError`` unless *address* is empty, or that of a server."""
    if address:
        check_connect_address(address)


def check_advertised_to(addresses: Mapping[str, str]) -> None:
    """Raises ``ValueError`` unless both sides are addresses."""
    for address in (*addresses, *addresses.values()):
        check_connect_address(address)


def check_not_empty(text: str) -> None:
    """Raises ``ValueError`` if there is nothing but spaces."""
    if not text.strip():
        raise ValueError("it cannot be empty")


def release_with_controller(text: str) -> None:
    """Raises ``ValueError`` unless the release has controllers that give ids."""
    known_release(text)
    if Release.parse(text) < BROKER_IDS_APPLIED:
        raise ValueError(
            f"a controller has the release {BROKER_IDS_APPLIED} or a later one, not {text}"
        )


NEEDS_JRAFT = Relation(
    ("controller_type", "release"),
    lambda config: config.controller_type != "jRaft" or config.parsed_release >= JRAFT_CONTROLLERS,
    f"{{controller_type}} needs the release {JRAFT_CONTROLLERS} or a later one, not {{release}}",
)


def peers_in(text: str) -> dict[str, str]:
    """The addresses of controllers by id, from "n0-host:port;n1-host:port"."""
    pairs = (peer.strip().partition("-") for peer in text.split(";") if peer.strip())
    return {name: address for name, _, address in pairs}


def check_peers(text: str) -> None:
    """Raises ``ValueError`` unless it is "id-host:port;…" with an odd number of different ids."""
    peers = [peer.strip() for peer in text.split(";") if peer.strip()]
    for peer in peers:
        name, dash, address = peer.partition("-")
        if not name or not dash:
            raise ValueError(f"a controller is named as n0-host:port, not {peer!r}")
        check_connect_address(address)
    if len(peers_in(text)) != len(peers):
        raise ValueError(f"two controllers have the same id in {text!r}")
    if len(peers) > CONTROLLERS_MAX or (peers and len(peers) % 2 == 0):
        raise ValueError(
            f"it names {len(peers)} controllers; a group has 1, 3, 5 … up to {CONTROLLERS_MAX}"
        )
