"""The cost of link proxies before nodes: sends with and without them, in turns.

python -m benchmarks.links
"""

from __future__ import annotations

import statistics
import time

from rocketmq_emulator import Message, sync
from rocketmq_emulator.cluster.worlds.processes import ProcessCluster

SENDS, TURNS = 1_000, 5
BODY = b"x" * 100


def send_us(*, with_links: bool) -> float:
    """The median of *SENDS* synchronous sends, one after the other, in microseconds."""
    with (
        ProcessCluster(brokers=1, with_links=with_links) as cluster,
        sync.Producer(namesrv=cluster.namesrv, group="bench") as producer,
    ):
        producer.send(Message("orders", BODY))
        took = []
        for _ in range(SENDS):
            began_s = time.perf_counter()
            producer.send(Message("orders", BODY))
            took.append((time.perf_counter() - began_s) * 1e6)
    return statistics.median(took)


def main() -> None:
    plain, proxied = [], []
    for _ in range(TURNS):
        plain.append(send_us(with_links=False))
        proxied.append(send_us(with_links=True))
    without_us, with_us = statistics.median(plain), statistics.median(proxied)
    print(f"a send without proxies  {without_us:7.0f} us  {1e6 / without_us:6.0f} per second")
    print(f"a send with proxies     {with_us:7.0f} us  {1e6 / with_us:6.0f} per second")
    print(f"ratio                   {with_us / without_us:7.2f}")


if __name__ == "__main__":
    main()
