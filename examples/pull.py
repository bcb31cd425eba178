"""Polls the messages of produce.py, and commits each batch after printing it, until Ctrl-C.

    python examples/pull.py [NAMESRV COUNT]

With a COUNT it ends after that many messages.  Start it again: it continues after the last
committed batch.
"""

from __future__ import annotations

import sys

from rocketmq_emulator import LitePullConsumer, run


async def main(namesrv: str, count: int) -> None:
    seen = 0
    async with LitePullConsumer(
        {"orders": "*"},
        namesrv=namesrv,
        group="archive",
        consume_from="CONSUME_FROM_FIRST_OFFSET",
        auto_commit=False,
    ) as consumer:
        while seen < count or count == 0:
            for message in await consumer.poll(timeout_ms=1_000):
                print(f"{message.body.decode()} at offset {message.queue_offset}", flush=True)
                seen += 1
            consumer.commit()  # in memory; sent every five seconds, and at the end


if __name__ == "__main__":
    namesrv, count = sys.argv[1:] or ["127.0.0.1:9876", "0"]
    run(main, namesrv, int(count))
