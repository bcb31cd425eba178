"""A cluster as a value: what is to run, not how.

The same spec starts as operating-system processes, embedded in one thread, or in the
virtual world.  It answers with each node's own config struct, so that whatever is wrong
is found before anything is started.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypedDict

import msgspec

from rocketmq_emulator.protocol.messages.validation import type_error_text
from rocketmq_emulator.settings.config import BrokerConfig, NameServerConfig
from rocketmq_emulator.settings.setting_rules import BadField, convert_fields
from rocketmq_emulator.text.values import PORT_MAX

LETTERS = "abcdefghijklmnopqrstuvwxyz"
BROKER_PORT_ABOVE, BROKER_PORT_STEP = 1035, 100  # 9876 -> 10911, 11011 …: upstream's habit


class ClusterSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """NameServers and brokers, their settings by our field names.

    ``port`` is the first NameServer's; the brokers' follow from it; 0 means any free ones.
    ``advertised_host`` is where clients reach what listens on ``host``, if elsewhere.
    Every node with a store has its own folder below ``store``.  Reply rules are allowed on
    a loopback ``host``, and elsewhere by the setting ``reply_rules_allowed``.
    """

    name_servers: int = 1
    brokers: int = 2
    release: str = "4.9.7"
    host: str = "127.0.0.1"
    advertised_host: str = ""
    port: int = 0
    store: str = ""
    name_server_settings: dict[str, Any] = {}
    broker_settings: dict[str, Any] = {}  # for each
    settings_of: dict[str, dict[str, Any]] = {}  # for one broker, above those for each

    def __post_init__(self) -> None:
        if not 1 <= self.name_servers <= 9:
            raise ValueError("a cluster has 1 to 9 NameServers")
        if not 0 <= self.brokers <= len(LETTERS):
            raise ValueError(f"a cluster has 0 to {len(LETTERS)} brokers")
        port_max = PORT_MAX - BROKER_PORT_ABOVE - BROKER_PORT_STEP * self.brokers
        if not 0 <= self.port <= port_max:
            raise ValueError(
                f"port is 0 (any free ports) or at most {port_max}, "
                f"so that the brokers' ports fit above it; not {self.port}"
            )
        if strangers := sorted(self.settings_of.keys() - set(self.broker_names)):
            raise ValueError(f"there is no broker named {', '.join(strangers)}")
        if self.advertised_host and not self.port:
            raise ValueError("an advertised host needs a port: brokers tell it to clients")

    @property
    def name_server_names(self) -> tuple[str, ...]:
        """``namesrv``, or ``namesrv-a``, ``namesrv-b`` … when there are several."""
        if self.name_servers == 1:
            return ("namesrv",)
        return tuple(f"namesrv-{LETTERS[index]}" for index in range(self.name_servers))

    @property
    def broker_names(self) -> tuple[str, ...]:
        """``broker-a``, ``broker-b`` …"""
        return tuple(f"broker-{LETTERS[index]}" for index in range(self.brokers))

    @property
    def is_on_loopback(self) -> bool:
        """Only this machine reaches its ports: then reply rules are allowed by default."""
        try:
            return ipaddress.ip_address(self.host.strip("[]")).is_loopback
        except ValueError:
            return self.host == "localhost"

    def name_server_config(self, name: str) -> NameServerConfig:
        """Raises ``BadField`` for settings that it does not have, or cannot have so."""
        port = self.port and self.port + self.name_server_names.index(name)
        given = {
            "release": self.release,
            "listen_address": f"{self.host}:{port}",
            "store": self._store_of(name),
            "reply_rules_allowed": self.is_on_loopback,
        }
        return convert_fields(NameServerConfig, given | self.name_server_settings, name)

    def broker_config(self, name: str, namesrv: tuple[str, ...] = ()) -> BrokerConfig:
        """Raises ``BadField`` for settings it does not have."""
        own: Mapping[str, Any] = self.settings_of.get(name, {})
        index = self.broker_names.index(name)
        port = self.port and self.port + BROKER_PORT_ABOVE + BROKER_PORT_STEP * index
        given = {
            "release": self.release,
            "name": name,
            "listen_address": f"{self.host}:{port}",
            "advertised_address": self.advertised_host and f"{self.advertised_host}:{port}",
            "namesrv": namesrv,
            "store": self._store_of(name),
            "reply_rules_allowed": self.is_on_loopback,
        }
        return convert_fields(BrokerConfig, {**given, **self.broker_settings, **own}, name)

    def reached_at(self, address: str) -> str:
        """Where clients reach a node that listens at *address*, ``host:port``."""
        if not self.advertised_host:
            return address
        return f"{self.advertised_host}:{address.rpartition(':')[2]}"

    def check(self) -> None:
        """Every node's config, made once: raises what the first bad one raises."""
        for name in self.name_server_names:
            self.name_server_config(name)
        for name in self.broker_names:
            self.broker_config(name)

    def _store_of(self, name: str) -> str:
        return str(Path(self.store) / name) if self.store else ""


class SpecFields(TypedDict, total=False):
    """The fields of a ``ClusterSpec`` as keywords: ``EmbeddedCluster(brokers=3)``."""

    name_servers: int
    brokers: int
    release: str
    host: str
    advertised_host: str
    port: int
    store: str | Path
    name_server_settings: dict[str, Any]
    broker_settings: dict[str, Any]
    settings_of: dict[str, dict[str, Any]]


def checked_spec(spec: ClusterSpec | None, fields: SpecFields) -> ClusterSpec:
    """A whole *spec*, or single fields of one, or the one changed by the others.

    Raises ``BadField`` for a field or a node's setting there is not.
    """
    if spec is not None and not isinstance(spec, ClusterSpec):
        raise BadField(
            f"{type_error_text('spec', 'a ClusterSpec', spec)}: single fields are given by name"
        )
    if spec is None or fields:
        given = {} if spec is None else msgspec.structs.asdict(spec)
        given |= {**fields}
        store = given.get("store", "")
        given |= {"store": str(store) if isinstance(store, Path) else store}
        spec = convert_fields(ClusterSpec, given, "a cluster")
    spec.check()
    return spec
