"""Which files one rebalance visits, in order: a reader with a bug goes the same way.

Counted are the files of ``emulator/client``, and the allocation that brokers share, whose
functions run in the task of the RebalanceService, for a clustering consumer with a
concurrent listener.  The pass begins when the service wakes and ends when it waits again:
the new queue's pull request is queued, and heartbeats were sent.  Of the broker calls
(members, stored offset, heartbeat) the files up to ``RemotingClient.invoke`` count.
"""

from __future__ import annotations

import sys
from pathlib import Path

import trio
from pulled_broker import a_queue, in_group

import rocketmq_emulator.client
from rocketmq_emulator.protocol.codes import RequestCode
from rocketmq_emulator.protocol.requests.groups import NotifyConsumerIdsChangedRequest

CLIENT = Path(rocketmq_emulator.client.__file__).parent
ROOT = CLIENT.parent.parent
ALLOCATION = ROOT / "protocol" / "allocation.py"
FILES_MAX = 9

PATH = [
    "instance/consumer_services.py",  # wakes, and takes every consumer of the instance in turn
    "consumer/consume_pipeline.py",  # a running consumer that is not paused
    "consumer/rebalance.py",  # topic by topic: allocate, release, claim
    "consumer/group_calls.py",  # who is in the group?
    "protocol/allocation.py",  # which queues are mine?
    "consumer/process_queue.py",  # what is held: has a pull request been lost?
    "consumer/offsets.py",  # where does the new queue start?
    "instance/addresses.py",  # of the broker that knows
    # (again instance/consumer_services.py: the new queue's pull request is queued)
    "instance/heartbeats.py",  # brokers get the newer subscription version
]


class Visits:
    """The files of the client that the RebalanceService's task runs through."""

    def __init__(self) -> None:
        self.files: list[str] = []
        self.queued_after: list[str] = []

    def __call__(self, frame, event, _arg) -> None:
        code = frame.f_code
        file = Path(code.co_filename)
        if event != "call" or not (file == ALLOCATION or file.is_relative_to(CLIENT)):
            return
        if not in_rebalance_task():
            return
        name = file.relative_to(ROOT if file == ALLOCATION else CLIENT).as_posix()
        if name not in self.files:
            self.files.append(name)
        if code.co_name == "pull_now":
            self.queued_after = list(self.files)


def in_rebalance_task() -> bool:
    try:
        return "RebalanceService.run" in trio.lowlevel.current_task().name
    except RuntimeError:  # between tasks: the virtual network hands bytes to connections
        return False


def visits_of_a_pass() -> Visits:
    visits = Visits()

    async def story(cluster, broker):
        cluster.namesrv.routes["%RETRY%cg"] = cluster.route(1)
        async with cluster.process() as app, cluster.a_consumer(app) as consumer:
            await trio.sleep(25)
            cluster.namesrv.routes["T"] = cluster.route(2)
            await trio.sleep(7)  # the poll at 30 s brings the route
            held = consumer.queues
            assert a_queue(1) not in held
            (peer,) = broker.server.connections
            notice = NotifyConsumerIdsChangedRequest(consumer_group="cg")
            sys.setprofile(visits)
            broker.server.push(peer, RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, notice)
            await trio.sleep(1)
            sys.setprofile(None)
            assert consumer.queues == sorted([*held, a_queue(1)])

    in_group(story)
    return visits


def test_a_rebalance_visits_nine_files() -> None:
    visits = visits_of_a_pass()
    assert visits.files == PATH
    assert visits.queued_after == PATH[:-1]
    assert len(PATH) <= FILES_MAX
