"""The start time of a cluster embedded in a running program that has imported its modules.

python -m benchmarks.embedded TIMES   # one line of JSON: milliseconds of each start
"""

from __future__ import annotations

import json
import sys
import time

from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.cluster.worlds.embedded import EmbeddedCluster


def starts_ms(times: int) -> list[float]:
    """Milliseconds of each start, until two brokers are in the route and accept."""
    found = []
    for _ in range(times):
        began_s = time.perf_counter()
        with EmbeddedCluster(ClusterSpec(brokers=2)):
            found.append((time.perf_counter() - began_s) * 1e3)
    return found


if __name__ == "__main__":
    print(json.dumps(starts_ms(int(sys.argv[1]))))
