"""Consumes what produce.py sends, as a member of a group, until Ctrl-C or for COUNT messages.

    python examples/consume.py [NAMESRV COUNT]

Start it twice: the two processes share the queues.  Kill one with -9: the other claims its queues.
"""

from __future__ import annotations

import sys

import trio

from rocketmq_emulator import MessageExt, PushConsumer, run


async def main(namesrv: str, count: int) -> None:
    seen = 0
    enough = trio.Event()

    async def on_orders(messages: list[MessageExt]) -> None:
        nonlocal seen
        for message in messages:
            where = f"{message.broker_name}/{message.queue_id}"
            print(f"{message.body.decode()} from {where}", flush=True)
            seen += 1
            if seen == count:
                enough.set()

    async with PushConsumer(
        on_orders,
        {"orders": "paid || shipped"},
        namesrv=namesrv,
        group="billing",
        consume_from="CONSUME_FROM_FIRST_OFFSET",
    ):
        await enough.wait()


if __name__ == "__main__":
    namesrv, count = sys.argv[1:] or ["127.0.0.1:9876", "0"]
    run(main, namesrv, int(count))
