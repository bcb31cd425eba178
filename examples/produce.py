"""Sends ten orders and prints where each one was stored.

python examples/produce.py [NAMESRV]
"""

from __future__ import annotations

import sys

from rocketmq_emulator import Message, Producer, run


async def main(namesrv: str) -> None:
    async with Producer(namesrv=namesrv, group="shop") as producer:
        for number in range(10):
            message = Message("orders", f"order {number}".encode(), tags="paid", keys=f"{number}")
            result = await producer.send(message)
            where = f"{result.queue.broker_name}/{result.queue.queue_id}"
            print(f"order {number}: {result.status.value} {where} at {result.queue_offset}")


if __name__ == "__main__":
    [namesrv] = sys.argv[1:] or ["127.0.0.1:9876"]
    run(main, namesrv)
