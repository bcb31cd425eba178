"""Tests of mailing.py, with pytest-asyncio: pytest examples/pytest_asyncio."""

from __future__ import annotations

import asyncio

import pytest
from mailing import Mailing

from rocketmq_emulator.aio import Message, Producer

pytestmark = pytest.mark.asyncio


async def pay(rocketmq, customer: str, body: bytes) -> None:
    async with Producer(namesrv=rocketmq.namesrv, group="shop") as producer:
        await producer.send(Message("orders", body, tags="paid", keys=customer))


async def test_who_pays_gets_a_mail(rocketmq) -> None:
    mails: list[tuple[str, str]] = []

    async def keep(customer: str, text: str) -> None:
        mails.append((customer, text))

    running = asyncio.create_task(Mailing(rocketmq.namesrv, keep).run())
    await pay(rocketmq, "Ada", b"two cups")
    await rocketmq.awaited.wait_until_consumed("mailing", topics=["orders"])
    assert mails == [("Ada", "paid: two cups")]
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_mail_that_fails_is_written_when_its_retry_falls_due(rocketmq) -> None:
    tried: list[str] = []
    failed = asyncio.Event()

    async def fail_once(customer: str, text: str) -> None:
        tried.append(f"{customer} {text}")
        if len(tried) == 1:
            failed.set()
            raise ConnectionError("no mail server")

    running = asyncio.create_task(Mailing(rocketmq.namesrv, fail_once).run())
    await pay(rocketmq, "Ada", b"two cups")
    await failed.wait()
    async with asyncio.timeout(10):
        while not await rocketmq.awaited.call(rocketmq.advance, "10s"):  # until it is sent back
            pass
    await rocketmq.awaited.wait_until_consumed("mailing", topics=["orders"])
    assert tried == ["Ada paid: two cups"] * 2
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
