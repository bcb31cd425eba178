"""The control address in the NameServer's KV config, so that who knows the cluster finds it.

A NameServer without a store forgets it when it ends, and is told again when it is back.
"""

from __future__ import annotations

import contextlib

import msgspec

from emulator.cluster.blocking_calls import call_blocking
from protocol.codes import RequestCode, ResponseCode
from protocol.command import RemotingCommand

NAMESPACE, KEY = "RMQEMU", "control"  # no RocketMQ uses that namespace

FIND_MS_MAX = 1_000  # somebody waits for it


def announce(namesrv: str, address: str) -> None:
    """Tell the NameServer at *namesrv*; one that does not answer is not told."""
    fields = {"namespace": NAMESPACE, "key": KEY, "value": address}
    request = RemotingCommand(code=RequestCode.PUT_KV_CONFIG, opaque=1, ext=_ext(fields))
    with contextlib.suppress(OSError):
        call_blocking(namesrv, request)


def find_announced(namesrv: str) -> str | None:
    """The control address that the NameServer at *namesrv* knows, ``host:port``.

    Raises ``OSError`` when it does not answer.
    """
    fields = {"namespace": NAMESPACE, "key": KEY}
    request = RemotingCommand(code=RequestCode.GET_KV_CONFIG, opaque=1, ext=_ext(fields))
    reply = call_blocking(namesrv, request, FIND_MS_MAX)
    if reply.code != ResponseCode.SUCCESS:
        return None
    return reply.fields().get("value")


def _ext(fields: dict[str, str]) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(fields))
