"""A broker loses power repeatedly under load; prints how many messages were lost, and errors.

python tests/durability/power_loss_run.py FLUSH_DISK_TYPE FIRST_SEED END_SEED
"""

from __future__ import annotations

import json
import sys
from typing import Any

import trio

from rocketmq_emulator.admin.calls import Admin
from rocketmq_emulator.client import ClientConfig, Message, Producer, SendError
from rocketmq_emulator.client.consumer.push.push_consumer import PushConsumer
from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.cluster.worlds.virtual import VirtualCluster
from rocketmq_emulator.protocol.bodies.topics import TopicConfig
from rocketmq_emulator.sim.world import VirtualWorld, run_virtual

TOPIC, BROKER = "orders", "broker-a"
SENDERS, LIVES, BODY_BYTES = 4, 2, 3_000
# Seconds between two losses of power, and between two sends: enough for several flushes.
LIFE_S = {"SYNC_FLUSH": (0.05, 0.4), "ASYNC_FLUSH": (0.3, 1.3)}
PAUSE_S_MAX = {"SYNC_FLUSH": 0.06, "ASYNC_FLUSH": 0.16}
SEND_TIMEOUT_MS = 300
SEEK_MS = 8  # so that a flush is running at nearly any time
SEGMENT_BYTES = 136 * 1024


class Load:
    """Concurrent senders, which send while ``is_on``."""

    def __init__(self, namesrv: str, pause_s_max: float) -> None:
        self.is_on = True
        self._namesrv = namesrv
        self._pause_s_max = pause_s_max

    async def run(self, process: Any) -> None:
        async with (
            Producer(
                process=process,
                group="shop",
                namesrv=self._namesrv,
                send_timeout_ms=SEND_TIMEOUT_MS,
            ) as producer,
            trio.open_nursery() as nursery,
        ):
            for number in range(SENDERS):
                nursery.start_soon(self._send, process, producer, number)
        await trio.sleep_forever()

    async def _send(self, process: Any, producer: Producer, number: int) -> None:
        body = f"{number}".encode().ljust(BODY_BYTES, b".")
        while self.is_on:
            try:
                await producer.send(Message(TOPIC, body))
            except SendError:
                await trio.sleep(0.2)  # the journal has the failure
            await trio.sleep(process.rng.uniform(0, self._pause_s_max))


async def main(world: VirtualWorld, flush_disk_type: str) -> list[bytes]:
    lines: list[bytes] = []
    settings = {
        "flush_disk_type": flush_disk_type,
        "message_bytes_max": 4096,
        "segment_bytes": SEGMENT_BYTES,
    }
    spec = ClusterSpec(brokers=1, store="on its drive", broker_settings=settings)
    cluster = VirtualCluster(world, spec, lines.append)
    await cluster.start()
    await make_topic(cluster)
    rng, drive = world.rng("power"), world.machines.machine(BROKER).drive
    replaced = recorded_documents(drive)
    drive.seek_ms = SEEK_MS
    load = Load(cluster.namesrv, PAUSE_S_MAX[flush_disk_type])
    cluster.start_client("producer", load.run)
    for _ in range(LIVES):
        await trio.sleep(rng.uniform(*LIFE_S[flush_disk_type]))
        cluster.power_off(BROKER)
        for name, text in drive.documents.items():
            assert text in replaced[name], f"{name} is none of its earlier texts"
        await trio.sleep(rng.uniform(0.1, 0.3))
        await cluster.power_on(BROKER)
        await trio.sleep(0.3)  # by then the producer's calls have failed, and it sends again
    load.is_on = False
    cluster.start_client("consumer", a_consumer(cluster.namesrv))
    await trio.sleep(6)
    return lines


async def make_topic(cluster: VirtualCluster) -> None:
    async def program(process: Any) -> None:
        instance = await process.instance(ClientConfig(namesrv=cluster.namesrv))
        topic = TopicConfig(topic_name=TOPIC, read_queue_nums=4, write_queue_nums=4)
        await Admin(cluster.namesrv, instance.remoting).create_topic_everywhere(topic)

    await cluster.start_client("tool", program).wait_ended()
    await trio.sleep(6)  # by then the topic table is on the drive, in any mode of flushing


def a_consumer(namesrv: str) -> Any:
    async def on_orders(_messages: Any) -> None:
        """The journal has each consumed message."""

    async def program(process: Any) -> None:
        async with PushConsumer(
            on_orders,
            {TOPIC: "*"},
            process=process,
            namesrv=namesrv,
            group="billing",
            consume_from="CONSUME_FROM_FIRST_OFFSET",
        ):
            await trio.sleep_forever()

    return program


def recorded_documents(drive: Any) -> dict[str, set[bytes]]:
    """The texts that each document of *drive* has now, and those it gets later."""
    texts = {name: {text} for name, text in drive.documents.items()}
    replace = drive.replace

    def recording(name: str, data: bytes, *, flushed: bool) -> None:
        texts.setdefault(name, set()).add(data)
        replace(name, data, flushed=flushed)

    drive.replace = recording
    return texts


def account(lines: list[bytes]) -> dict[str, Any]:
    """Count messages by the journal's facts, and list facts that contradict each other."""
    stored: dict[str, int] = {}  # by unique key: the end of its record, while it is in the log
    lost: set[str] = set()  # keys whose record was lost and not stored again later
    keys: dict[str, set[str]] = {"MessageSent": set(), "MessageConsumed": set()}
    flushed_to, unsafe, bugs, gone_count = 0, [], [], 0
    for line in lines:
        fact = json.loads(line)["fact"]
        match fact["kind"]:
            case "MessageStored":
                stored[fact["uniq_key"]] = fact["position"] + fact["size_bytes"]
                lost.discard(fact["uniq_key"])
            case "LogFlushed":
                flushed_to = fact["position"]
            case "PowerLost":
                gone = {key for key, end in stored.items() if end > fact["kept_position"]}
                unsafe += [key for key in gone if stored[key] <= flushed_to]
                stored = {key: end for key, end in stored.items() if key not in gone}
                lost |= gone
                gone_count += len(gone)
                flushed_to = fact["kept_position"]
            case "LogRecovered" if fact["end_position"] < max(stored.values(), default=0):
                bugs.append(f"recovered less than was kept: {fact}")
            case "MessageSent" if fact["status"] == "SEND_OK":
                keys["MessageSent"].add(fact["uniq_key"])
            case "MessageConsumed":
                keys["MessageConsumed"].add(fact["uniq_key"])
            case "HandlerFailed":
                bugs.append(fact["error"])
    acknowledged, consumed = keys["MessageSent"], keys["MessageConsumed"]
    return {
        "acknowledged": len(acknowledged),
        "gone": gone_count,
        "lost": len(lost),
        "acknowledged and lost": len(acknowledged & lost),
        "lost although flushed": sorted(unsafe),
        "missing without a word": sorted(acknowledged - consumed - lost),
        "lost and yet consumed": sorted(consumed & lost),
        "bugs": bugs,
    }


if __name__ == "__main__":
    kind, first, end = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    for seed in range(first, end):
        found = account(run_virtual(lambda world: main(world, kind), seed=seed))
        sys.stdout.write(json.dumps({"seed": seed, **found}) + "\n")
