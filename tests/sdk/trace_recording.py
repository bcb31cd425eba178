"""Records the bodies of the trace topic, for tests/golden/traces.jsonl.

Start a RocketMQ with ``traceTopicEnable=true``, a transactionCheckInterval of 2,000, a
transactionTimeOut of 1,000 and, for 5.x, a transactionOpBatchInterval of 100; run a client
that traces (TraceStory.java, or the Go program with ``"trace": true``), then

    python -m tests.sdk.trace_recording NAMESRV "java 4.9.8" "4.9.7" >> tests/golden/traces.jsonl
"""

from __future__ import annotations

import json
import sys

import trio

from rocketmq_emulator.admin.calls import admin_over_tcp
from rocketmq_emulator.admin.messages import TopicReader
from rocketmq_emulator.protocol.messages.names import TRACE_TOPIC


async def recorded(namesrv: str) -> list[dict[str, str | None]]:
    """The keys and bodies of all trace messages, oldest first."""
    async with admin_over_tcp(namesrv) as admin:
        reader = TopicReader(admin, TRACE_TOPIC)
        spans = await reader.spans()
        starts = [span.first for span in spans]
        found = [message async for message in reader.stored(spans, starts)]
    return [{"keys": each.keys, "body": each.body.decode()} for each in found]


def main() -> None:
    """Write a line for each trace message."""
    namesrv, client, broker = sys.argv[1:]
    for line in trio.run(recorded, namesrv):
        text = json.dumps({"client": client, "broker": broker, **line}, ensure_ascii=False)
        sys.stdout.write(text + "\n")


if __name__ == "__main__":
    main()
