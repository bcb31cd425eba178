"""A producer's bugs by name (``emulator.quirks``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from emulator.client.producer.async_send import AsyncSend
from emulator.quirks import quirks_of


class WanderingSend(AsyncSend):
    """An asynchronous send whose retries go to the next queue of the topic."""

    __slots__ = ()

    def _try(self, broker: str, address: str | None, now_ms: int) -> None:
        if self._brokers and self.info is not None:
            queues = self.info.queues
            place = queues.index(self._queue) if self._queue in queues else 0
            self._queue = queues[(place + 1) % len(queues)]
            self._request = self._kernel.request(self._outgoing, self._queue, now_ms)
        super()._try(broker, address, now_ms)


SEND_TYPES: Mapping[str, type[AsyncSend]] = {"retry_on_another_queue": WanderingSend}


def async_send_type(names: Iterable[str]) -> type[AsyncSend]:
    """How asynchronous sends are carried out with these quirks on."""
    for name in quirks_of("producer", names):
        return SEND_TYPES[name]
    return AsyncSend
