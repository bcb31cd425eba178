"""Tests of billing.py: the bills it sends, also during failures."""

from __future__ import annotations

import pytest
from billing import Billing, order

from rocketmq_emulator import ResponseCode

BUSY = ResponseCode.SERVICE_NOT_AVAILABLE  # clients then try another broker
pytestmark = pytest.mark.rocketmq(topics=["orders", "bills"])


def test_each_order_is_billed(rocketmq) -> None:
    with Billing(rocketmq.namesrv, pay=print):
        order(rocketmq.namesrv, "A-17", b"two cups")
        order(rocketmq.namesrv, "A-18", b"one pot")
        rocketmq.wait_until_consumed("billing", topics=["orders"])
    bills = rocketmq.sent_to("bills")
    assert {bill.keys: bill.body for bill in bills} == {
        "A-17": b"bill of two cups",
        "A-18": b"bill of one pot",
    }


def test_a_bill_that_is_refused_once_is_sent_again_elsewhere(rocketmq) -> None:
    with Billing(rocketmq.namesrv, pay=print):
        rocketmq.fail_next("send", error=BUSY, topic="bills", nodes="broker-a")
        order(rocketmq.namesrv, "A-17", b"two cups")
        rocketmq.wait_until_consumed("billing", topics=["orders"])
    assert [bill.keys for bill in rocketmq.sent_to("bills")] == ["A-17"]


def test_orders_are_billed_although_a_broker_is_away(rocketmq) -> None:
    rocketmq.kill("broker-b")
    with Billing(rocketmq.namesrv, pay=print):
        order(rocketmq.namesrv, "A-17", b"two cups")
        rocketmq.wait_until_consumed("billing", topics=["orders"])
    assert len(rocketmq.sent_to("bills")) == 1
