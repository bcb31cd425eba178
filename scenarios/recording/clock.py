"""The recorded time line: what is done when, as far as that is known before the run.

Until the first ``run.until`` every step has a time.  After it nobody knows the time, only how
long after the fact a step is done; a stretch between two of them is an epoch.  A fault that
begins in one epoch and ends in another is ended by a step of its own.
"""

from __future__ import annotations

from emulator.cluster.faults.values import Fault
from scenarios.plan import Heal, Mark, Step, When
from scenarios.words import Does, word_of


class NotRecordable(ValueError):
    """What a scenario does that no plan can say; nothing was run."""


class Draft:
    """A step that is not whole yet: how long its fault holds is known when it ends."""

    def __init__(
        self,
        does: Does,
        at_ms: int | None,
        when: When | None,
        after_ms: int,
        name: str,
        for_ms: int | None,
    ) -> None:
        self.does, self.at_ms, self.when, self.after_ms = does, at_ms, when, after_ms
        self.name, self.for_ms = name, for_ms

    def step(self) -> Step:
        """As the plan has it."""
        return Step(
            does=self.does,  # type: ignore[arg-type]
            at_ms=self.at_ms,
            when=self.when,
            after_ms=self.after_ms,
            for_ms=self.for_ms,
            name=self.name,
        )


class RecordedMoment:
    """A place on the time line: in which epoch, and how far in it."""

    def __init__(self, epoch: int, elapsed_ms: int) -> None:
        self.epoch, self.elapsed_ms = epoch, elapsed_ms


class TimeLine:
    """Steps in the order in which they are recorded, and the recorded clock."""

    def __init__(self) -> None:
        self.drafts: list[Draft] = []
        self.ended = ""  # what has ended it, if anything has
        self._epoch, self._elapsed_ms, self._last_ms = 0, 0, 0
        self._waiting_for: When | None = None

    @property
    def now_ms(self) -> int | None:
        """Since the load began; None after a fact was waited for."""
        return self._elapsed_ms if self._epoch == 0 else None

    @property
    def now(self) -> RecordedMoment:
        """The place reached so far."""
        return RecordedMoment(self._epoch, self._elapsed_ms)

    def sleep(self, ms: int) -> None:
        """Move the clock."""
        self._check_open()
        if ms < 0:
            raise NotRecordable(f"nobody can sleep {ms} ms")
        self._elapsed_ms += ms

    def until(self, when: When) -> None:
        """What follows is done after this fact."""
        self._check_open()
        if self._waiting_for is not None:
            self.add(Mark(text=f"after {self._waiting_for.kind}"))
        self._epoch, self._elapsed_ms, self._last_ms = self._epoch + 1, 0, 0
        self._waiting_for = when

    def add(self, does: Does, name: str = "", for_ms: int | None = None) -> Draft:
        """*does* is done now."""
        self._check_open()
        after_ms = 0 if self._epoch == 0 else self._elapsed_ms - self._last_ms
        draft = Draft(does, self.now_ms, self._waiting_for, after_ms, name, for_ms)
        self._last_ms, self._waiting_for = self._elapsed_ms, None
        self.drafts.append(draft)
        return draft

    def end(self, draft: Draft, began: RecordedMoment) -> None:
        """The fault of *draft*, that *began* then, ends now."""
        assert isinstance(draft.does, Fault), "nothing else has an end"
        word = word_of(draft.does)
        if began.epoch == self._epoch:
            held_ms = self._elapsed_ms - began.elapsed_ms
            if held_ms == 0:
                raise NotRecordable(f"{word} holds for no time: sleep inside its block")
            draft.for_ms = held_ms
            return
        draft.name = draft.name or self._free_name(word)
        self.add(Heal(step=draft.name))

    def finish(self, why: str) -> None:
        """Nothing more can be done, because of *why*; a fact waited for is in the plan."""
        if self._epoch > 0 and (self._waiting_for is not None or self._elapsed_ms > self._last_ms):
            self.add(Mark(text=why))
        self.ended = why

    def steps(self) -> tuple[Step, ...]:
        """What was recorded."""
        return tuple(draft.step() for draft in self.drafts)

    def _check_open(self) -> None:
        if self.ended:
            raise NotRecordable(f"nothing more can be done: {self.ended}")

    def _free_name(self, word: str) -> str:
        taken = {draft.name for draft in self.drafts}
        return next(
            name for number in range(1, 10_000) if (name := f"{word}-{number}") not in taken
        )
