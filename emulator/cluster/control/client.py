"""A client of the control address, for commands and tests in Python.

client = find_control("", "127.0.0.1:9876")
client.do("broker-b", "kill")
"""

from __future__ import annotations

import contextlib
import http.client
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import TypeVar
from urllib.parse import quote

import msgspec

from rocketmq_emulator.admin.calls import AdminRefused, ClusterUnreachable, NotFound
from rocketmq_emulator.cluster.control.http_connection import is_loopback
from rocketmq_emulator.cluster.control.server import find_announced
from rocketmq_emulator.cluster.fault_values import FaultState
from rocketmq_emulator.cluster.node_view import NodeView
from rocketmq_emulator.cluster.world import Verb, WorldKind
from rocketmq_emulator.protocol.bodies.extensions import ReplyRuleList, ReplyRuleState

CONNECT_S_MAX = 5.0
BELOW_NAMESRV = 1  # by default `up` uses the NameServer's port minus this for control
T = TypeVar("T")


class _Nodes(msgspec.Struct):
    nodes: tuple[NodeView, ...]


class ClusterAbout(msgspec.Struct):
    """The fields of ``GET /`` that commands use."""

    world: WorldKind
    with_links: bool = False


class _Faults(msgspec.Struct):
    faults: tuple[FaultState, ...]


class _FaultIds(msgspec.Struct):
    fault_ids: tuple[int, ...]


class _Advanced(msgspec.Struct):
    due_count: int


class _Advertised(msgspec.Struct):
    address: str


class _Error(msgspec.Struct):
    error: str


class ControlClient:
    """Requests to a control address, ``host:port``.

    Raises ``ClusterUnreachable`` without an answer, ``NotFound`` for an unknown node or fault,
    ``AdminRefused`` for any other refused request.
    """

    def __init__(self, address: str) -> None:
        self.address = address

    def nodes(self) -> tuple[NodeView, ...]:
        """Every node of the cluster."""
        return self._call("GET", "/nodes", _Nodes).nodes

    def do(self, name: str, verb: Verb) -> NodeView:
        """Carry out *verb*, without a timeout; returns the node's state afterwards."""
        path = quote(name, safe="", errors="surrogateescape")  # also bytes that are not UTF-8
        return self._call("POST", f"/nodes/{path}/{verb}", NodeView)

    def advertise(self, name: str, address: str) -> None:
        """Let broker *name* register *address* for clients."""
        path = quote(name, safe="", errors="surrogateescape")
        body = msgspec.json.encode({"address": address})
        self._call("POST", f"/nodes/{path}/advertise", _Advertised, body)

    def reset(self) -> None:
        """Restore the state of the start; connections stay open."""
        self._call("POST", "/reset", _Nodes)

    def about(self) -> ClusterAbout:
        """The kind of the cluster, and whether it has links."""
        return self._call("GET", "/", ClusterAbout)

    def faults(self) -> tuple[FaultState, ...]:
        """The faults that hold."""
        return self._call("GET", "/faults", _Faults).faults

    def reply_rules(self, name: str) -> tuple[ReplyRuleState, ...]:
        """The reply rules that hold at the node *name*, which must run."""
        return self._call("GET", f"/nodes/{quote(name, safe='')}/reply-rules", ReplyRuleList).rules

    def begin_fault(self, given: Mapping[str, object]) -> FaultState:
        """Begin a fault: its word, its fields and optionally ``for``; returns its state."""
        return self._call("POST", "/faults", FaultState, msgspec.json.encode(given))

    def end_fault(self, fault_id: int) -> tuple[int, ...]:
        """End a fault and undo its changes; returns its id."""
        return self._call("DELETE", f"/faults/{fault_id}", _FaultIds).fault_ids

    def end_faults(self) -> tuple[int, ...]:
        """End all faults; returns the ids of those that held."""
        return self._call("DELETE", "/faults", _FaultIds).fault_ids

    def advance(self, ms: int) -> int:
        """Advance delayed and timer messages by *ms*; returns how many fell due."""
        body = msgspec.json.encode({"time": ms})
        return self._call("POST", "/advance", _Advanced, body).due_count

    def facts(self, kinds: Sequence[str]) -> Iterator[bytes]:
        """Lines of facts of these *kinds* from now on, until the cluster ends.

        The first line is empty: from then on the facts of all running nodes are included.
        """
        connection = self._connection()
        path = f"/facts?kinds={','.join(kinds)}"
        try:
            self._connect(connection)
            connection.request("GET", path)
            response = connection.getresponse()
            if response.status != HTTPStatus.OK:
                self._read(response.status, response.read(), _Nodes)
            yield b""
            yield from response
        except (OSError, http.client.HTTPException) as error:
            text = f"the control address at {self.address} ended: `rmqemu up` has stopped"
            raise ClusterUnreachable(text) from error
        finally:
            connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        host, _, port = self.address.rpartition(":")
        return http.client.HTTPConnection(host.strip("[]"), int(port), CONNECT_S_MAX)

    def _connect(self, connection: http.client.HTTPConnection) -> None:
        try:
            connection.connect()
        except OSError as error:
            text = f"no control address answers at {self.address}: is `rmqemu up` running?"
            raise ClusterUnreachable(text) from error
        connection.sock.settimeout(None)

    def _call(self, method: str, path: str, kind: type[T], body: bytes = b"") -> T:
        connection = self._connection()
        text = f"the control address at {self.address} ended before it answered"
        try:
            self._connect(connection)
            connection.request(method, path, body or None)
            response = connection.getresponse()
            answer = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise ClusterUnreachable(text) from error
        finally:
            connection.close()
        return self._read(response.status, answer, kind)

    def _read(self, status: int, body: bytes, kind: type[T]) -> T:
        try:
            if status in (HTTPStatus.OK, HTTPStatus.CREATED):
                return msgspec.json.decode(body, type=kind)
            text = msgspec.json.decode(body, type=_Error).error
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            text = f"the server at {self.address} is no control address of `rmqemu up`"
            raise ClusterUnreachable(text) from error
        raise NotFound(text) if status == HTTPStatus.NOT_FOUND else AdminRefused(text)


def find_control(given: str, namesrv: str) -> ControlClient:
    """A client for the address *given*, else for the one that a NameServer at *namesrv* knows.

    If no NameServer answers (it may be the node to restart), tries the port that ``up`` uses by
    default.  Raises ``ClusterUnreachable``.
    """
    if given:
        return ControlClient(given)
    addresses = namesrv.split(";")
    silent = 0
    for address in addresses:
        try:
            found = find_announced(address)
        except OSError:
            silent += 1
            continue
        if found is not None:
            return ControlClient(found)
    if silent < len(addresses):
        text = "has no control address: `rmqemu up` gives it one, unless it has --control none"
        raise ClusterUnreachable(f"the cluster at {namesrv} {text}")
    return _below(addresses[0], namesrv)


def announced_control(namesrv: str) -> ControlClient | None:
    """A client for the address that a NameServer at *namesrv* knows; None if none does."""
    for address in namesrv.split(";"):
        with contextlib.suppress(OSError):
            if found := find_announced(address):
                return ControlClient(found)
    return None


def _below(address: str, namesrv: str) -> ControlClient:
    host, _, port = address.rpartition(":")
    caller = ControlClient(f"{host}:{int(port) - BELOW_NAMESRV}")
    if is_loopback(host):
        with contextlib.suppress(ClusterUnreachable):  # raised below, with advice
            caller.nodes()
            return caller
    text = f"no NameServer answers at {namesrv}: start one with `rmqemu up`, or give --control"
    raise ClusterUnreachable(text)
