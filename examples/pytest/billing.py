"""An application with plain functions and threads.  It bills each order once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from rocketmq_emulator.sync import Message, MessageExt, Producer, PushConsumer


class Billing:
    """Reads orders and sends a bill for each; an order that is delivered twice is billed once."""

    def __init__(self, namesrv: str, pay: Callable[[str], None]) -> None:
        self._pay = pay
        self._billed: set[str] = set()
        self._bills = Producer(namesrv=namesrv, group="billing")
        self._orders = PushConsumer(
            self._bill,
            {"orders": "*"},
            namesrv=namesrv,
            group="billing",
            consume_from="CONSUME_FROM_FIRST_OFFSET",
        )

    def __enter__(self) -> Self:
        self._bills.__enter__()
        self._orders.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._orders.__exit__(*error)
        self._bills.__exit__(*error)

    def _bill(self, orders: list[MessageExt]) -> None:
        for order in orders:
            if order.keys not in self._billed:
                self._pay(order.keys)
                self._bills.send(Message("bills", b"bill of " + order.body, keys=order.keys))
                self._billed.add(order.keys)


def order(namesrv: str, keys: str, what: bytes) -> None:
    """Send an order, as the shop does."""
    with Producer(namesrv=namesrv, group="shop") as producer:
        producer.send(Message("orders", what, keys=keys))
