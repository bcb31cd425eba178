"""The time until a broker restarted through the control address is in the route again.

python -m benchmarks.restart TIMES   # one line of JSON: milliseconds of each restart
"""

from __future__ import annotations

import json
import sys
import time

import trio

from rocketmq_emulator.admin.calls import admin_over_tcp
from rocketmq_emulator.cluster.control.client import ControlClient
from rocketmq_emulator.cluster.worlds.processes import ProcessCluster

BROKER = "broker-b"


def restarts_ms(times: int) -> list[float]:
    """Milliseconds from each request until the NameServer gives the broker to a client."""
    with ProcessCluster(brokers=2, control=0) as cluster:
        caller = ControlClient(cluster.control.removeprefix("http://"))
        caller.nodes()  # the first request imports modules
        return [_restart_ms(cluster.namesrv, caller) for _ in range(times)]


def _restart_ms(namesrv: str, caller: ControlClient) -> float:
    began_s = time.perf_counter()
    caller.do(BROKER, "restart")
    trio.run(_wait_routed, namesrv)
    return (time.perf_counter() - began_s) * 1e3


async def _wait_routed(namesrv: str) -> None:
    async with admin_over_tcp(namesrv) as admin:
        while BROKER not in await admin.masters():
            await trio.lowlevel.checkpoint()


if __name__ == "__main__":
    print(json.dumps(restarts_ms(int(sys.argv[1]))))
