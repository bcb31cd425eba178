"""Delayed messages and retries come when their level says, or their time.

Not before: only a clock that was moved explains that, or an operator who advanced time.  And soon
after, unless something happened to the broker meanwhile.
"""

from __future__ import annotations

from emulator.checks.chains import Copy
from emulator.checks.checker import Checker, Metric, Shared, key_of, place_of
from emulator.checks.folding import Table
from emulator.facts import (
    DelayedDelivered,
    MessageStored,
    Queue,
    TimeAdvanced,
    TimerMessageDelivered,
)
from emulator.journal import Entry

EARLY_US_MAX = 1_000_000  # times are kept in seconds on the way
LATE_US_MAX = 3_000_000  # upstream looks every 100 ms, timers every second
CLOCKS_US = 70_000_000  # store times do not go back with a clock: they are ahead for as long
BACK_US = 30_000_000  # a broker to which something happened is back by then


class DelaysAreKept(Checker):
    """ScheduleMessageService, TimerMessageStore: server invariants 62 and 63."""

    name = "delays"
    rule = (
        "a delayed message comes when the delay of its level has passed, a timer message when its "
        "time has come: not before, and within 3 s"
    )
    metrics = (
        Metric("early_delays", "messages", "that came before their time"),
        Metric("late_delays", "messages", "that came late, with nothing wrong at their broker"),
        Metric("excused_late_delays", "messages", "late, and something happened to their broker"),
        Metric(
            "excused_delays_by_clock",
            "messages",
            "early or late by no more than their broker's clock was moved",
        ),
        Metric("excused_delays_advanced", "messages", "early, as somebody advanced time for them"),
    )
    needs = (MessageStored,)

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._advanced_us: dict[str, int] = {}  # brokers whose waiting messages were let come

    def table(self) -> Table:
        """What it reads."""
        return {
            DelayedDelivered: self._delivered,
            TimerMessageDelivered: self._delivered,
            TimeAdvanced: self._advances,
        }

    def end(self) -> None:
        """A run without delays has numbers too."""
        for metric in self.metrics:
            self.adds(metric.name, 0)
        for copies in self.progress.messages.chains.waiting.values():
            for copy in copies:
                assert self.scene.last is not None
                self._looks(copy, self.scene.last)

    def _advances(self, fact: TimeAdvanced, entry: Entry) -> None:
        self._advanced_us[entry.node] = entry.mono_us

    def _delivered(self, fact: DelayedDelivered | TimerMessageDelivered, entry: Entry) -> None:
        copy = self.progress.messages.copy
        if copy is not None and copy.due_us is not None:
            self.tries()
            self._looks(copy, entry, fact.queue)

    def _looks(self, copy: Copy, entry: Entry, queue: Queue | None = None) -> None:
        """It came to *queue* with *entry*; None: it has not come until then."""
        if copy.due_us is None:
            return
        late_us = entry.mono_us - copy.due_us
        if late_us <= LATE_US_MAX and (queue is None or late_us >= -EARLY_US_MAX):
            return
        if excuse := self._excuse(copy, copy.due_us, entry.mono_us):
            self.adds(excuse, 1)
            return
        broker = copy.records.queue.broker
        self.adds("early_delays" if late_us < 0 else "late_delays", 1)
        word = "before" if late_us < 0 else "after"
        what = "has not come" if queue is None else f"came to {place_of(queue)}"
        self.objects(
            f"{copy.key} {what} {abs(late_us) / 1e6:.1f} s {word} its time",
            copy.stored,
            key_of(entry),
            node=broker,
        )

    def _excuse(self, copy: Copy, due_us: int, now_us: int) -> str:
        """The metric of what explains it; empty: nothing does."""
        broker, stored_us = copy.records.queue.broker, copy.stored.mono_us
        if now_us < due_us and self._advanced_us.get(broker, -1) >= stored_us:
            return "excused_delays_advanced"
        wrong_us = due_us - now_us - EARLY_US_MAX
        moved_us = self.scene.clock_moved_us(broker, stored_us - CLOCKS_US, now_us)
        if now_us < due_us:
            # By a clock that went back it is stored in the future, and so it is delivered at once
            # (ScheduleMessageService.correctDeliverTimestamp).
            is_back = self.scene.clock_went_back(broker, stored_us - CLOCKS_US, now_us)
            is_ahead = is_back and now_us - stored_us <= moved_us
            return "excused_delays_by_clock" if is_ahead or 0 < moved_us >= wrong_us else ""
        touched = self.scene.touched((broker,), due_us - BACK_US, due_us + LATE_US_MAX)
        within_us = BACK_US if touched else LATE_US_MAX
        quiet_us = self.scene.undisturbed_us((broker,), due_us, now_us)
        if touched and (quiet_us <= within_us or self.scene.is_gone(broker)):
            return "excused_late_delays"
        return "excused_delays_by_clock" if quiet_us <= within_us + moved_us else ""
