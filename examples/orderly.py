"""Sends three orders of four steps each, an order to one queue, and consumes them in order.

python examples/orderly.py [NAMESRV]
"""

from __future__ import annotations

import sys

import trio

from rocketmq_emulator import Message, MessageExt, Producer, PushConsumer, by_hash, run

TOPIC = "order-steps"
STEPS = ("created", "paid", "packed", "shipped")
ORDERS = ("A-17", "B-4", "C-250")


async def main(namesrv: str) -> None:
    async with Producer(namesrv=namesrv, group="shop-steps") as producer:
        for step in STEPS:
            for order in ORDERS:
                message = Message(TOPIC, step.encode(), keys=order)
                await producer.send_to_selected(message, by_hash, order)

    history: dict[str, list[str]] = {order: [] for order in ORDERS}
    complete = trio.Event()

    async def on_steps(messages: list[MessageExt]) -> None:
        for message in messages:
            history[str(message.keys)].append(message.body.decode())
        if all(len(steps) == len(STEPS) for steps in history.values()):
            complete.set()

    async with PushConsumer(
        on_steps,
        {TOPIC: "*"},
        namesrv=namesrv,
        group="tracking",
        orderly=True,
        consume_from="CONSUME_FROM_FIRST_OFFSET",
    ):
        await complete.wait()
    for order, steps in history.items():
        print(f"{order}: {', '.join(steps)}")


if __name__ == "__main__":
    [namesrv] = sys.argv[1:] or ["127.0.0.1:9876"]
    run(main, namesrv)
