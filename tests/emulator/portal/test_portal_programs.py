"""The ends of programs, and the errors of clients under another loop or without a loop."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest
import trio

from rocketmq_emulator import (
    Cluster,
    Message,
    NotUnderTrio,
    Producer,
    PullConsumer,
    PushConsumer,
    run,
)
from tests.support.paths import ROOT

END_S_MAX = 20
EXAMPLES = ("produce", "consume", "orderly", "pull")


def started(*command: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *command],
        cwd=ROOT,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def interrupted(program: subprocess.Popen[str]) -> tuple[int, str]:
    """Interrupt *program*; its exit code and its standard error."""
    program.send_signal(signal.SIGINT)
    _, said = program.communicate(timeout=END_S_MAX)
    return program.returncode, said


def programs() -> Iterator[tuple[str, list[str]]]:
    """Each documented program of trio, with @NAMESRV@ as the address of its NameServer."""
    for page in (ROOT / "docs" / "start.md", ROOT / "docs" / "client.md"):
        found = re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
        shown = [text for text in found if "\nrun(main)" in text and "127.0.0.1:9876" in text]
        for number, text in enumerate(shown):
            yield f"{page.stem}-{number}", ["-c", text.replace("127.0.0.1:9876", "@NAMESRV@")]
    for name in EXAMPLES:
        more = ["0"] if name in ("consume", "pull") else []
        yield f"example-{name}", [f"examples/{name}.py", "@NAMESRV@", *more]


PROGRAMS = dict(programs())


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_that_waits_for_a_name_server_ends_on_ctrl_c_without_a_traceback(name) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(END_S_MAX)
        here = f"127.0.0.1:{silent.getsockname()[1]}"
        program = started(*(word.replace("@NAMESRV@", here) for word in PROGRAMS[name]))
        line, _ = silent.accept()
        with line:
            assert interrupted(program) == (130, "")


def test_the_pages_have_programs_of_trio() -> None:
    assert len(PROGRAMS) >= 5


def test_a_consumer_that_is_interrupted_has_written_its_offsets() -> None:
    with Cluster(brokers=1) as cluster:
        produce = [sys.executable, "examples/produce.py", cluster.namesrv]
        subprocess.run(produce, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        program = started("examples/consume.py", cluster.namesrv, "0")
        assert program.stdout is not None
        seen = [program.stdout.readline() for _ in range(10)]
        assert interrupted(program) == (130, "")
        assert all(line.startswith("order ") for line in seen)

        async def offsets() -> int:
            async with PullConsumer(namesrv=cluster.namesrv, group="billing") as consumer:
                queues = await consumer.fetch_subscribe_message_queues("orders")
                found = [await consumer.fetch_consume_offset(q, from_store=True) for q in queues]
                return sum(offset or 0 for offset in found)

        assert run(offsets) == 10


def test_a_program_s_result_and_errors_come_through() -> None:
    async def add(one: int, other: int) -> int:
        await trio.lowlevel.checkpoint()
        return one + other

    async def fail() -> None:
        raise ZeroDivisionError

    assert run(add, 1, 2) == 3
    with pytest.raises(ZeroDivisionError):
        run(fail)


def test_ctrl_c_in_nurseries_of_the_application_ends_it_too() -> None:
    async def main() -> None:
        async with trio.open_nursery() as outer, trio.open_nursery() as inner:
            outer.start_soon(trio.sleep_forever)
            inner.start_soon(trio.sleep_forever)
            signal.raise_signal(signal.SIGINT)
            await trio.sleep_forever()

    with pytest.raises(SystemExit) as ended:
        run(main)
    assert ended.value.code == 130


CLIENTS = [
    Producer(group="g"),
    PushConsumer(print, {"t": "*"}, group="g"),
    PullConsumer(group="g"),
]
IN_ASYNCIO = r"use the one of rocketmq_emulator\.aio"
IN_PLAIN_CODE = r"Without async use the one of rocketmq_emulator\.sync"


async def use(client) -> None:
    async with client:
        pass


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: type(client).__name__)
def test_a_client_of_trio_says_what_to_use_elsewhere(client) -> None:
    with pytest.raises(NotUnderTrio, match=IN_ASYNCIO):
        asyncio.run(use(client))
    with pytest.raises(NotUnderTrio, match=IN_PLAIN_CODE):
        use(client).send(None)
    with pytest.raises(NotUnderTrio, match=IN_PLAIN_CODE), client:
        pass


async def test_the_verbs_of_a_cluster_work_in_async_tests_too() -> None:
    with Cluster(brokers=2) as cluster:
        async with Producer(namesrv=cluster.namesrv, group="g") as producer:
            await producer.send(Message("t", b"x"))
            cluster.kill("broker-a")
            assert (await producer.send(Message("t", b"x"))).queue.broker_name == "broker-b"
            cluster.restart("broker-a")
            assert cluster.is_running("broker-a")
