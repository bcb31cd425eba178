"""The files that one rebalance visits, in order: a reader who looks for a bug reads the same.

The tests count the files of ``emulator/client``, and the allocation that brokers share, if
their functions run in the task of the RebalanceService, for a clustering consumer with a
concurrent listener.  A pass begins when the service wakes and ends when it waits again: the
new queue's pull request is then queued, and heartbeats were sent.  For calls of brokers
(members, stored offset, heartbeat), the files up to ``RemotingClient.invoke`` count.
"""

from __future__ import annotations

import sys
from types import FrameType

import trio

from rocketmq_emulator.protocol.codes import RequestCode
from rocketmq_emulator.protocol.requests.groups import NotifyConsumerIdsChangedRequest
from tests.support.client.pulled_broker import a_queue, in_group
from tests.support.visited_files import difference, files_under, place_of, without_repeats

FILES_MAX = 10


class Visits:
    """The functions of the client that the RebalanceService's task calls, in order.

    A coroutine that continues after a wait is not counted again.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []  # file and function
        self._frames: set[FrameType] = set()

    def __call__(self, frame, event, _arg) -> None:
        name = place_of(frame.f_code.co_filename)
        counts = name.startswith("emulator/client/") or name == "protocol/allocation.py"
        if event != "call" or not counts or not in_rebalance_task():
            return
        if frame not in self._frames:
            self._frames.add(frame)
            self.calls.append((name, frame.f_code.co_name))

    def files(self, until: str = "") -> list[str]:
        """The files up to the first call of *until*, or all; a file again after another one."""
        names = [function for _, function in self.calls]
        end = names.index(until) if until else len(names)
        return without_repeats(file for file, _ in self.calls[:end])


def in_rebalance_task() -> bool:
    try:
        return "RebalanceService.run" in trio.lowlevel.current_task().name
    except RuntimeError:  # between tasks: the virtual network delivers bytes
        return False


def visits_of_a_claim() -> Visits:
    """The visits when a notice wakes the service after the route got a second queue."""
    visits = Visits()

    async def main(cluster, broker):
        cluster.namesrv.routes["%RETRY%cg"] = cluster.route(1)
        async with cluster.process() as app, cluster.a_consumer(app) as consumer:
            await trio.sleep(25)
            cluster.namesrv.routes["T"] = cluster.route(2)
            await trio.sleep(7)  # the poll at 30 s fetches the route
            held = consumer.queues
            assert a_queue(1) not in held
            (peer,) = broker.server.connections
            notice = NotifyConsumerIdsChangedRequest(consumer_group="cg")
            sys.setprofile(visits)
            broker.server.push(peer, RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, notice)
            await trio.sleep(1)
            sys.setprofile(None)
            assert consumer.queues == sorted([*held, a_queue(1)])

    in_group(main)
    return visits


def visits_of_a_release() -> Visits:
    """The visits when the timer's pass finds a second member, without a notice."""
    visits = Visits()

    async def main(cluster, broker):
        cluster.namesrv.routes["%RETRY%cg"] = cluster.route(1)
        broker.store(3, queue_id=1)
        async with cluster.process() as app, cluster.a_consumer(app) as consumer:
            await trio.sleep(3)
            assert a_queue(1) in consumer.queues
            offset = broker.offsets.get(("T", 1))
            (own,) = {data.client_id for _, data in broker.heartbeats}
            broker.members = [own, "~later@than-ours"]
            sys.setprofile(visits)
            await trio.sleep(19)  # RebalanceService waits 20 s
            sys.setprofile(None)
            assert a_queue(0) in consumer.queues
            assert a_queue(1) not in consumer.queues
            assert offset is None
            assert broker.offsets["T", 1] == 3, "the offset is written before the release"

    in_group(main, queues=2)
    return visits


def test_a_rebalance_visits_the_files_of_the_page() -> None:
    visits = visits_of_a_claim()
    visited = list(dict.fromkeys(visits.files()))
    assert difference(visited, files_under("A rebalance")) == ""
    assert len(visited) <= FILES_MAX
    assert set(visits.files(until="pull_now")) == set(visited[:-2]), "heartbeats follow"


def test_the_release_of_a_queue_visits_the_files_of_the_page() -> None:
    visits = visits_of_a_release()
    visited = visits.files(until="is_balanced")
    shown = without_repeats(files_under("A queue is released by the rebalance timer"))
    assert difference(visited, shown) == ""
    assert len(set(visited)) <= FILES_MAX
