"""A cluster as a value: its nodes and settings, independent of how they are run.

The same spec starts as operating-system processes, embedded in one thread, or in the
virtual world.  It builds each node's config struct, so that errors in settings are found
before any node is started.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypedDict

import msgspec

from rocketmq_emulator.protocol.messages.validation import type_error_text
from rocketmq_emulator.protocol.versions import BROKER_IDS_APPLIED, Release
from rocketmq_emulator.settings.config import BrokerConfig, ControllerConfig, NameServerConfig
from rocketmq_emulator.settings.property_names import BROKER, CONTROLLER, NAME_SERVER
from rocketmq_emulator.settings.releases import ACTING_MASTER_SENT
from rocketmq_emulator.settings.setting_rules import BadField, convert_fields
from rocketmq_emulator.text.values import PORT_MAX

LETTERS = "abcdefghijklmnopqrstuvwxyz"
BROKER_PORT_ABOVE, BROKER_PORT_STEP = 1035, 100  # 9876 -> 10911, 11011 …, as upstream's examples
SLAVE_PORT_STEP = 10  # above the port of its master: 10921, 10931 …
SLAVES_MAX = 8  # of one master
CONTROLLER_PORT_ABOVE = 10  # the first NameServer's: 9886, 9887, 9888
NodeRole: TypeAlias = Literal["nameserver", "controller", "broker"]
CONTROLLER_DEFAULT = "127.0.0.1:9878"  # before the addresses are known, for checks alone
ACTING_MASTER: Mapping[str, bool] = {  # and total_replicas: then a master that is back prepares
    "slave_acting_master": True,
    "remote_escape": True,
    "slave_read": True,
}
CONTROLLERS = (0, 1, 3)  # a group of two decides nothing without both


class ClusterSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """NameServers, controllers and brokers, with settings by the field names of their configs.

    Each broker has *slaves* more nodes with its broker name and the ids 1, 2 …: the slaves of
    ``broker-a`` are the nodes ``broker-a-1``, ``broker-a-2``.  A ``broker_role`` in
    ``broker_settings`` is that of the masters.

    With *controllers* the brokers of one name have the same node names, but no fixed role: the
    controllers give them ids from 1 on, and elect one as master.  That needs release 5.1.1.

    With *acting_master* a slave acts as its master while that is away: ``ACTING_MASTER`` are the
    settings of all brokers then, and ``broker_settings`` override them.  That needs release 5.0.0.

    ``port`` is the first NameServer's; the brokers' ports follow from it; 0 means any free ones.
    ``advertised_host`` is the host that clients connect to, if it is not ``host``.
    Every node with a store has its own folder below ``store``.  Reply rules are allowed on
    a loopback ``host``; on others the setting ``reply_rules_allowed`` allows them.
    """

    name_servers: int = 1
    brokers: int = 2
    slaves: int = 0  # of each broker
    controllers: int = 0  # 0, 1, or a group of 3
    acting_master: bool = False  # a slave acts as its master while that is away
    release: str = "4.9.7"
    host: str = "127.0.0.1"
    advertised_host: str = ""
    port: int = 0
    store: str = ""
    name_server_settings: dict[str, Any] = {}
    controller_settings: dict[str, Any] = {}
    broker_settings: dict[str, Any] = {}  # for all brokers
    settings_of: dict[str, dict[str, Any]] = {}  # for one broker; they override broker_settings

    def __post_init__(self) -> None:
        if not 1 <= self.name_servers <= 9:
            raise ValueError("a cluster has 1 to 9 NameServers")
        if not 0 <= self.brokers <= len(LETTERS):
            raise ValueError(f"a cluster has 0 to {len(LETTERS)} brokers")
        if not 0 <= self.slaves <= SLAVES_MAX:
            raise ValueError(f"a broker has 0 to {SLAVES_MAX} slaves")
        if self.controllers not in CONTROLLERS:
            raise ValueError("a cluster has 0, 1 or 3 controllers")
        if self.controllers and Release.parse(self.release) < BROKER_IDS_APPLIED:
            raise ValueError(
                f"controllers need a release from {BROKER_IDS_APPLIED} on, as release='5.3.3'; "
                f"not {self.release}"
            )
        if self.acting_master and (why := self._why_no_acting_master()):
            raise ValueError(why)
        port_max = PORT_MAX - BROKER_PORT_ABOVE - BROKER_PORT_STEP * self.brokers
        if not 0 <= self.port <= port_max:
            raise ValueError(
                f"port is 0 (any free ports) or at most {port_max}, "
                f"so that the brokers' ports fit above it; not {self.port}"
            )
        if strangers := sorted(self.settings_of.keys() - set(self.broker_names)):
            known = ", ".join(self.broker_names) or "no broker"
            raise ValueError(f"there is no broker named {', '.join(strangers)}; there are {known}")
        if self.advertised_host and not self.port:
            raise ValueError("an advertised host needs a port: brokers register both for clients")

    def _why_no_acting_master(self) -> str:
        """Why no slave can act as a master here; empty if one can.

        With controllers two would decide.  Upstream: ReplicasManager.changeToMaster and
        changeToSlave, BrokerController.onMinBrokerChange: both call changeSpecialServiceStatus.
        """
        if not self.slaves:
            return "acting_master needs slaves that can act: slaves=1"
        if Release.parse(self.release) < ACTING_MASTER_SENT:
            return (
                f"acting_master needs release {ACTING_MASTER_SENT} or a later one, as "
                f"release='5.3.3'; not {self.release}"
            )
        if self.controllers:
            return (
                "acting_master and controllers exclude each other: both switch the services that "
                "deliver delayed messages and check transactions, by other rules"
            )
        return ""

    @property
    def name_server_names(self) -> tuple[str, ...]:
        """``namesrv``, or ``namesrv-a``, ``namesrv-b`` … for more than one."""
        if self.name_servers == 1:
            return ("namesrv",)
        return tuple(f"namesrv-{LETTERS[index]}" for index in range(self.name_servers))

    @property
    def controller_names(self) -> tuple[str, ...]:
        """``controller``, or ``controller-a``, ``controller-b``, ``controller-c``."""
        if self.controllers == 1:
            return ("controller",)
        return tuple(f"controller-{LETTERS[index]}" for index in range(self.controllers))

    @property
    def node_names(self) -> tuple[str, ...]:
        """All nodes, in their start order."""
        return (*self.name_server_names, *self.controller_names, *self.broker_names)

    @property
    def broker_names(self) -> tuple[str, ...]:
        """The nodes that are brokers: the masters, then the slaves."""
        return (*self.master_names, *self.slave_names)

    @property
    def master_names(self) -> tuple[str, ...]:
        """The masters, whose node names are their broker names: ``broker-a``, ``broker-b`` …

        With controllers these are the nodes that start first, so the first masters.
        """
        return tuple(f"broker-{LETTERS[index]}" for index in range(self.brokers))

    @property
    def possible_masters(self) -> tuple[str, ...]:
        """The nodes that are masters, or may be elected."""
        return self.broker_names if self.controllers else self.master_names

    @property
    def slave_names(self) -> tuple[str, ...]:
        """The slaves: ``broker-a-1``, ``broker-b-1`` …, then ``broker-a-2`` …"""
        return tuple(
            f"{master}-{number}"
            for number in range(1, self.slaves + 1)
            for master in self.master_names
        )

    @property
    def start_groups(self) -> tuple[tuple[str, ...], ...]:
        """The nodes that start together, in order: a group waits for the one before it.

        Slaves come after the masters, so that the answer to their registration has their master.
        """
        controllers = (self.controller_names,) if self.controllers else ()
        return self.name_server_names, *controllers, self.master_names, self.slave_names

    def master_of(self, node: str) -> tuple[str, int]:
        """The broker name of the broker *node*, and its id: 0 for a master.

        With controllers the id is only a number of the node.
        """
        if node in self.master_names:
            return node, 0
        master, _, number = node.rpartition("-")
        return master, int(number)

    def role_of(self, node: str) -> NodeRole:
        """The role of *node*, one of ``node_names``."""
        if node in self.name_server_names:
            return "nameserver"
        return "controller" if node in self.controller_names else "broker"

    @property
    def is_on_loopback(self) -> bool:
        """Whether ``host`` is a loopback address; then reply rules are allowed by default."""
        try:
            return ipaddress.ip_address(self.host.strip("[]")).is_loopback
        except ValueError:
            return self.host == "localhost"

    def name_server_config(self, name: str) -> NameServerConfig:
        """The config of NameServer *name*.  Raises ``BadField`` for a bad setting."""
        port = self.port and self.port + self.name_server_names.index(name)
        given = {
            "release": self.release,
            "listen_address": f"{self.host}:{port}",
            "store": self._store_of(name),
            "reply_rules_allowed": self.is_on_loopback,
            "support_acting_master": self.acting_master,  # routes show the slave as the master
        }
        config = convert_fields(NameServerConfig, given | self.name_server_settings, name)
        if config.controller_in_namesrv:
            raise BadField(
                f"{name}: controllers of a cluster are nodes of their own: give controllers=1, or "
                "3, and no enableControllerInNamesrv"
            )
        return config

    def controller_config(
        self, name: str, addresses: Mapping[str, str] | None = None
    ) -> ControllerConfig:
        """The config of controller *name*; a group needs the *addresses* of all.

        Raises ``BadField`` for a bad setting.
        """
        addresses = addresses or {}
        peers = [
            f"n{number}-{addresses[other]}"
            for number, other in enumerate(self.controller_names)
            if self.controllers > 1 and other in addresses
        ]
        given = {
            "release": self.release,
            "listen_address": self.controller_address(name),
            "self_id": f"n{self.controller_names.index(name)}",
            "peers": ";".join(peers),
            "store": self._store_of(name),
            "reply_rules_allowed": self.is_on_loopback,
        }
        return convert_fields(ControllerConfig, given | self.controller_settings, name)

    def controller_address(self, name: str) -> str:
        """Where controller *name* listens, with port 0 for any."""
        above = CONTROLLER_PORT_ABOVE + self.controller_names.index(name)
        return f"{self.host}:{self.port and self.port + above}"

    def broker_config(
        self,
        name: str,
        namesrv: tuple[str, ...] = (),
        controllers: tuple[str, ...] = (CONTROLLER_DEFAULT,),
    ) -> BrokerConfig:
        """The config of broker *name*; *controllers* are used if the cluster has some.

        Raises ``BadField`` for a bad setting.
        """
        own: Mapping[str, Any] = self.settings_of.get(name, {})
        master, number = self.master_of(name)
        above = BROKER_PORT_ABOVE + BROKER_PORT_STEP * self.master_names.index(master)
        port = self.port and self.port + above + SLAVE_PORT_STEP * number
        role: dict[str, Any] = {}
        if self.controllers:
            role = {"enable_controller_mode": True, "controllers": controllers}
        elif number:
            role = {"broker_role": "SLAVE", "broker_id": number}
        given = {
            "release": self.release,
            "name": master,
            "listen_address": f"{self.host}:{port}",
            "advertised_address": self.advertised_host and f"{self.advertised_host}:{port}",
            "namesrv": namesrv,
            "store": self._store_of(name),
            "reply_rules_allowed": self.is_on_loopback,
        }
        if self.acting_master:
            given |= {**ACTING_MASTER, "total_replicas": 1 + self.slaves}
        settings = {**given, **self.broker_settings, **role, **own}
        return convert_fields(BrokerConfig, settings, name)

    def reached_at(self, address: str) -> str:
        """The ``host:port`` that clients use for a node that listens at *address*."""
        if not self.advertised_host:
            return address
        return f"{self.advertised_host}:{address.rpartition(':')[2]}"

    def check(self) -> None:
        """Build every node's config once.  Raises ``BadField`` for the first invalid one."""
        for name in self.name_server_names:
            self.name_server_config(name)
        for name in self.controller_names:
            self.controller_config(name)
        for name in self.broker_names:
            self.broker_config(name)

    def _store_of(self, name: str) -> str:
        return str(Path(self.store) / name) if self.store else ""


class SpecFields(TypedDict, total=False):
    """The fields of a ``ClusterSpec`` as keywords: ``EmbeddedCluster(brokers=3)``."""

    name_servers: int
    brokers: int
    slaves: int
    controllers: int
    acting_master: bool
    release: str
    host: str
    advertised_host: str
    port: int
    store: str | Path
    name_server_settings: dict[str, Any]
    controller_settings: dict[str, Any]
    broker_settings: dict[str, Any]
    settings_of: dict[str, dict[str, Any]]


class ClusterFields(SpecFields, total=False):
    """The fields of a spec, and ``settings``: the short name of ``broker_settings``.

    Settings may have RocketMQ's names, as with ``--set``: ``{"autoCreateTopicEnable": False}``.
    """

    settings: Mapping[str, Any]


def checked_spec(spec: ClusterSpec | None, fields: ClusterFields) -> ClusterSpec:
    """*spec*, or a ``ClusterSpec`` of *fields*, or *spec* with *fields* replaced.

    Raises ``BadField`` for an unknown or invalid field or node setting.
    """
    if spec is not None and not isinstance(spec, ClusterSpec):
        raise BadField(
            f"{type_error_text('spec', 'a ClusterSpec', spec)}: single fields are given by name"
        )
    if spec is None or fields:
        given = {} if spec is None else msgspec.structs.asdict(spec)
        given |= _with_our_names(fields)
        store = given.get("store", "")
        given |= {"store": str(store) if isinstance(store, Path) else store}
        spec = convert_fields(ClusterSpec, given, "a cluster")
    spec.check()
    return spec


def _with_our_names(fields: ClusterFields) -> dict[str, Any]:
    """*fields* with settings by our names, and ``broker_settings`` for ``settings``."""
    given: dict[str, Any] = {**fields}
    if "settings" in given:
        if "broker_settings" in given:
            raise BadField("settings and broker_settings of a cluster are the same: give one")
        given["broker_settings"] = given.pop("settings")
    roles = {
        "broker_settings": partial(
            BROKER.by_our_names, ours=BrokerConfig.__struct_fields__, owner="a broker"
        ),
        "name_server_settings": partial(
            NAME_SERVER.by_our_names, ours=NameServerConfig.__struct_fields__, owner="a NameServer"
        ),
        "controller_settings": partial(
            CONTROLLER.by_our_names, ours=ControllerConfig.__struct_fields__, owner="a controller"
        ),
    }
    for name, translated in roles.items():
        if isinstance(given.get(name), Mapping):  # else its type is refused later
            given[name] = translated(given[name])
    if isinstance(given.get("settings_of"), Mapping):
        given["settings_of"] = {
            node: roles["broker_settings"](own) if isinstance(own, Mapping) else own
            for node, own in given["settings_of"].items()
        }
    return given
