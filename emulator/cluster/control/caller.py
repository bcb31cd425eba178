"""The control address from outside: how commands and tests in Python find it and use it.

caller = find_control("", "127.0.0.1:9876")
caller.do("broker-b", "kill")
"""

from __future__ import annotations

import contextlib
import http.client
from http import HTTPStatus
from typing import TypeVar
from urllib.parse import quote

import msgspec

from emulator.cluster.admin import AdminRefused, ClusterUnreachable, NotFound
from emulator.cluster.control.announcing import find_announced
from emulator.cluster.control.guard import is_loopback
from emulator.cluster.node_view import NodeView
from emulator.cluster.world import Verb

CONNECT_S_MAX = 5.0
BELOW_NAMESRV = 1  # the control port of `up` is the one below the NameServer's
T = TypeVar("T")


class _Nodes(msgspec.Struct):
    nodes: tuple[NodeView, ...]


class _Error(msgspec.Struct):
    error: str


class ControlCaller:
    """Requests to a control address, ``host:port``.

    Raises ``ClusterUnreachable`` when nobody answers there, ``NotFound`` for what is not there,
    ``AdminRefused`` for what makes no sense.
    """

    def __init__(self, address: str) -> None:
        self.address = address

    def nodes(self) -> tuple[NodeView, ...]:
        """Every node of the cluster."""
        return self._call("GET", "/nodes", _Nodes).nodes

    def do(self, name: str, verb: Verb) -> NodeView:
        """Carry out *verb*, however long that takes; the node afterwards."""
        path = quote(name, safe="", errors="surrogateescape")  # bytes of no character, too
        return self._call("POST", f"/nodes/{path}/{verb}", NodeView)

    def _call(self, method: str, path: str, kind: type[T]) -> T:
        host, _, port = self.address.rpartition(":")
        connection = http.client.HTTPConnection(host.strip("[]"), int(port), CONNECT_S_MAX)
        text = f"no control address answers at {self.address}: is `rmqemu up` running?"
        try:
            connection.connect()
            text = f"the control address at {self.address} ended before it answered"
            connection.sock.settimeout(None)
            connection.request(method, path)
            response = connection.getresponse()
            body = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise ClusterUnreachable(text) from error
        finally:
            connection.close()
        return self._read(response.status, body, kind)

    def _read(self, status: int, body: bytes, kind: type[T]) -> T:
        try:
            if status == HTTPStatus.OK:
                return msgspec.json.decode(body, type=kind)
            text = msgspec.json.decode(body, type=_Error).error
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            text = f"what answers at {self.address} is no control address of `rmqemu up`"
            raise ClusterUnreachable(text) from error
        raise NotFound(text) if status == HTTPStatus.NOT_FOUND else AdminRefused(text)


def find_control(given: str, namesrv: str) -> ControlCaller:
    """At the address *given*, else where a NameServer at *namesrv* says.

    When no NameServer answers (it may be the one to be started again), at the port that ``up``
    takes by default.  Raises ``ClusterUnreachable``.
    """
    if given:
        return ControlCaller(given)
    addresses = namesrv.split(";")
    silent = 0
    for address in addresses:
        try:
            found = find_announced(address)
        except OSError:
            silent += 1
            continue
        if found is not None:
            return ControlCaller(found)
    if silent < len(addresses):
        text = "has no control address: `rmqemu up` gives it one, unless it has --control none"
        raise ClusterUnreachable(f"the cluster at {namesrv} {text}")
    return _below(addresses[0], namesrv)


def _below(address: str, namesrv: str) -> ControlCaller:
    host, _, port = address.rpartition(":")
    caller = ControlCaller(f"{host}:{int(port) - BELOW_NAMESRV}")
    if is_loopback(host):
        with contextlib.suppress(ClusterUnreachable):  # said below, with what can be done
            caller.nodes()
            return caller
    text = f"no NameServer answers at {namesrv}: start one with `rmqemu up`, or give --control"
    raise ClusterUnreachable(text)
