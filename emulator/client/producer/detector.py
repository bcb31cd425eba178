"""Probing brokers that failed, so that a producer knows when one can be reached again.

A probe that succeeds makes its broker reachable; none makes one unreachable, and none
ends an isolation.

Upstream: LatencyFaultToleranceImpl.startDetector, MQClientAPIImpl.getMaxOffset as ServiceDetector.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import trio

from emulator.net.errors import RemoteError
from protocol.catalog import GET_MAX_OFFSET
from protocol.codes import ResponseCode
from protocol.requests.offsets import GetMaxOffsetRequest

if TYPE_CHECKING:
    from emulator.client.instance.instance import ClientInstance
    from emulator.client.producer.send_pipeline import SendPipeline

ROUND_S = 3.0  # between rounds, and before the first


async def watch_brokers(pipeline: SendPipeline, instance: ClientInstance) -> NoReturn:
    """Probe by rounds, until cancelled."""
    while True:
        await trio.sleep(ROUND_S)
        await _probe_all(pipeline, instance)


async def _probe_all(pipeline: SendPipeline, instance: ClientInstance) -> None:
    faults, config = pipeline.kernel.strategy.faults, pipeline.config
    for broker in faults.due_for_check(instance.now_ms(), config.detect_interval_ms):
        address = instance.brokers.to_publish(broker)
        if address is None:
            faults.forget(broker)
        elif await _answers(pipeline, instance, address):
            faults.mark_reachable(broker)


async def _answers(pipeline: SendPipeline, instance: ClientInstance, address: str) -> bool:
    topic = next(iter(pipeline.topics()), "")  # any topic: only whether it answers counts
    header = GetMaxOffsetRequest(topic=topic, queue_id=0)
    try:
        reply = await instance.remoting.invoke(
            address, GET_MAX_OFFSET, header, timeout_ms=pipeline.config.detect_timeout_ms
        )
    except RemoteError:
        return False
    return reply.code == ResponseCode.SUCCESS
