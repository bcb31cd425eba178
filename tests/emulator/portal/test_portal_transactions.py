"""Transactional messages by the trio client, the client for threads and the one for asyncio."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest
import trio

from rocketmq_emulator import Cluster, LocalTransactionState, Message, SendStatus, aio, sync
from rocketmq_emulator.errors.call_errors import ClientMisuse, NotRunning
from rocketmq_emulator.protocol.messages.message import decode_messages
from tests.support.client.half_messages import a_check, a_half_message
from tests.support.portal.client_kinds import FACES, with_core

COMMIT = LocalTransactionState.COMMIT_MESSAGE
ROLLBACK = LocalTransactionState.ROLLBACK_MESSAGE
UNKNOW = LocalTransactionState.UNKNOW
WAIT_S_MAX = 20.0


@pytest.fixture(scope="module")
def cluster():
    settings = {"rejectTransactionMessage": False}
    with Cluster(brokers=1, topics=["t"], settings=settings) as cluster:
        yield cluster


@pytest.fixture(params=FACES)
def face(request):
    with FACES[request.param]() as face:
        yield face


def wait_until(condition) -> None:
    until_s = time.monotonic() + WAIT_S_MAX
    while not condition():
        assert time.monotonic() < until_s
        time.sleep(0.01)


def ask(core, key: str = "K1") -> None:
    """As if a broker asked; nobody listens at the address to which the answer goes."""
    [message] = decode_messages(a_half_message(key=key))
    core.pipeline.transaction_checks.check(message, a_check(), "127.0.0.1:1")


def test_a_transaction_and_a_check_run_the_same_in_every_client(cluster, face) -> None:
    executed, asked = [], []

    def execute(message, argument):
        executed.append((message.transaction_id, argument))
        if isinstance(argument, Exception):
            raise argument
        return argument

    def check(message):
        asked.append((message.body, message.transaction_id))

    settings = {"namesrv": cluster.namesrv, "group": "pg"}
    with face.transaction_producer(execute, check, **settings) as producer:
        arguments = (COMMIT, ROLLBACK, None, ValueError("no"))
        results = [producer.send_in_transaction(Message("t", b"x"), each) for each in arguments]
        assert [r.local_transaction_state for r in results] == [COMMIT, ROLLBACK, UNKNOW, UNKNOW]
        assert {r.status for r in results} == {SendStatus.SEND_OK}
        assert executed == [(r.msg_id, a) for r, a in zip(results, arguments, strict=True)]
        assert producer.send(Message("t", b"not in a transaction")).is_ok
        with_core(producer, ask)
        wait_until(lambda: asked)
        assert asked == [(b"paid", "K1")]


def test_a_check_that_raises_ends_only_itself_in_every_client(cluster, face) -> None:
    asked = []

    def check(message):
        asked.append(message.transaction_id)
        raise RuntimeError("mine")

    settings = {"namesrv": cluster.namesrv, "group": "pg"}
    with face.transaction_producer(lambda *_: COMMIT, check, **settings) as producer:
        for key in ("K1", "K2"):
            with_core(producer, lambda core, key=key: ask(core, key))
        wait_until(lambda: asked == ["K1", "K2"])
        result = producer.send_in_transaction(Message("t", b"x"))
        assert result.local_transaction_state is COMMIT


@pytest.mark.parametrize(
    ("name", "hang_of"),
    [
        ("trio", trio.sleep_forever),
        ("asyncio", lambda: asyncio.Event().wait()),
        *((name, None) for name in FACES),  # a plain function, which blocks its thread
    ],
)
def test_a_check_that_hangs_delays_only_checks_and_the_client_can_be_closed(
    cluster, name, hang_of
) -> None:
    asked, returned, may_end = [], [], threading.Event()

    def blocks(message):
        asked.append(message.transaction_id)
        may_end.wait(WAIT_S_MAX)
        returned.append(message.transaction_id)

    async def waits(message):
        asked.append(message.transaction_id)
        await hang_of()
        returned.append(message.transaction_id)

    check = blocks if hang_of is None else waits
    with FACES[name]() as face:
        face.function = lambda function: function
        settings = {"namesrv": cluster.namesrv, "group": "pg"}
        with face.transaction_producer(lambda *_: COMMIT, check, **settings) as producer:
            for key in ("K1", "K2"):
                with_core(producer, lambda core, key=key: ask(core, key))
            wait_until(lambda: asked)
            result = producer.send_in_transaction(Message("t", b"x"))
            assert result.local_transaction_state is COMMIT
            assert producer.send(Message("t", b"y")).is_ok
        assert (asked, returned) == (["K1"], []), "it hangs, and the client is closed"
        may_end.set()


def test_in_threads_another_call_goes_on_while_a_local_transaction_blocks(cluster) -> None:
    class Blocks:
        def execute_local_transaction(self, _message, _argument):
            began.set()
            assert may_end.wait(WAIT_S_MAX)
            return COMMIT

        def check_local_transaction(self, _message):
            return COMMIT

    began, may_end, results = threading.Event(), threading.Event(), []
    with sync.TransactionProducer(Blocks(), namesrv=cluster.namesrv, group="pg") as producer:
        call = threading.Thread(
            target=lambda: results.append(producer.send_in_transaction(Message("t", b"x")))
        )
        call.start()
        assert began.wait(WAIT_S_MAX)
        assert producer.send(Message("t", b"y")).is_ok
        may_end.set()
        call.join()
    assert [r.local_transaction_state for r in results] == [COMMIT]


def test_in_asyncio_coroutines_run_in_the_loop_and_plain_functions_in_threads(cluster) -> None:
    places = []

    class Mixed:
        async def execute_local_transaction(self, _message, _argument):
            places.append(asyncio.get_running_loop())
            await asyncio.sleep(0)
            return COMMIT

        def check_local_transaction(self, _message):
            places.append(threading.current_thread())

    async def main():
        loop = asyncio.get_running_loop()
        settings = {"namesrv": cluster.namesrv, "group": "pg"}
        async with aio.TransactionProducer(Mixed(), **settings) as producer:
            result = await producer.send_in_transaction(Message("t", b"x"))
            assert result.local_transaction_state is COMMIT
            with_core(producer, ask)
            await asyncio.to_thread(wait_until, lambda: len(places) == 2)
        assert places[0] is loop
        assert places[1] is not threading.current_thread()
        with pytest.raises(NotRunning):
            await producer.send_in_transaction(Message("t", b"x"))

    asyncio.run(main())


@pytest.mark.parametrize("name", ["execute_local_transaction", "check_local_transaction"])
def test_in_threads_a_coroutine_is_refused_where_it_is_given(name) -> None:
    class Plain:
        def execute_local_transaction(self, message, argument):
            pass

        def check_local_transaction(self, message):
            pass

    async def a_coroutine(*_arguments):
        pass

    listener = Plain()
    setattr(listener, name, a_coroutine)
    with pytest.raises(ClientMisuse, match=f"{name} of a listener of rocketmq_emulator.sync is a"):
        sync.TransactionProducer(listener, group="pg")
