"""How fast one consumer pulls and consumes, by topic: what it reports of itself.

The sums are sampled where they are read (``emulator.sampled_sums``): a minute on a grid of ten
seconds, an hour on one of ten minutes.

Upstream: ConsumerStatsManager.
"""

from __future__ import annotations

from emulator.sampled_sums import HOUR, MINUTE, Grid, SampledSums
from protocol.bodies.running import ConsumeStatus

_GRIDS = (MINUTE, HOUR)


class ConsumeFigures:
    """Of one member of a group; *began_ms* is when upstream's sampling would have begun."""

    def __init__(self, began_ms: int) -> None:
        self._began_ms = began_ms
        self._topics: dict[str, _TopicFigures] = {}

    def pulled(self, topic: str, count: int, took_ms: int, now_ms: int) -> None:
        """A pull was answered with *count* messages after *took_ms*."""
        self._of(topic, now_ms).pulls.add(count, took_ms, now_ms)

    def consumed(
        self, topic: str, calls: int, took_ms: int, now_ms: int, *, ok: int, failed: int
    ) -> None:
        """Listeners returned, after *took_ms* in all; so many of their messages were consumed."""
        figures = self._of(topic, now_ms)
        figures.calls.add(ok, took_ms, now_ms, calls)
        if failed:
            figures.failures.add(failed, 0, now_ms)

    def status(self, topic: str, now_ms: int) -> ConsumeStatus:
        """Messages a second and milliseconds a call; failed messages of an hour.

        Upstream: ConsumerStatsManager.consumeStatus.
        """
        found = self._topics.get(topic)
        if found is None:
            return ConsumeStatus()
        calls_ms = _mean_ms(found.calls, MINUTE, now_ms)
        return ConsumeStatus(
            pull_rt=_mean_ms(found.pulls, MINUTE, now_ms),
            pull_tps=_a_second(found.pulls, now_ms),
            consume_rt=calls_ms or _mean_ms(found.calls, HOUR, now_ms),
            consume_ok_tps=_a_second(found.calls, now_ms),
            consume_failed_tps=_a_second(found.failures, now_ms),
            consume_failed_msgs=found.failures.window(HOUR, now_ms)[0].messages,
        )

    def _of(self, topic: str, now_ms: int) -> _TopicFigures:
        found = self._topics.get(topic)
        if found is None:
            found = self._topics[topic] = _TopicFigures(self._began_ms, now_ms)
        return found


class _TopicFigures:
    """Of one topic; ``size`` of the first two is the time that their calls took, in ms."""

    __slots__ = ("calls", "failures", "pulls")

    def __init__(self, began_ms: int, now_ms: int) -> None:
        self.pulls = SampledSums(_GRIDS, began_ms, now_ms)
        self.calls = SampledSums(_GRIDS, began_ms, now_ms)  # messages: those consumed
        self.failures = SampledSums(_GRIDS, began_ms, now_ms)


def _a_second(sums: SampledSums, now_ms: int) -> float:
    added, ms = sums.window(MINUTE, now_ms)
    return added.messages * 1_000 / ms if ms else 0.0


def _mean_ms(sums: SampledSums, grid: Grid, now_ms: int) -> float:
    added, _ = sums.window(grid, now_ms)
    return added.size / added.calls if added.calls else 0.0
