"""The driver: one pass over a journal, each entry to those who take its kind.

    judge(read_journals([Path("run.jsonl")])) -> Judgement

The scene and the progress are given an entry before the checkers, which look into them.  A
checker that raises is named in the judgement and gets no more entries; the others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from emulator.checks.checker import Checker, Shared
from emulator.checks.folding import Table, Take
from emulator.checks.progress import Progress
from emulator.checks.scene import Scene
from emulator.checks.table import CHECKERS
from emulator.checks.violation import Judgement
from emulator.facts import Fact
from emulator.journal import Entry

Takers = tuple[Take, ...]


def judge(entries: Iterable[Entry], checkers: Sequence[type[Checker]] | None = None) -> Judgement:
    """What *checkers* (default: all) find in *entries*, which are in the order of time.

    Raises only what *entries* raise.
    """
    judging = Judging(checkers)
    judging.take(entries)
    return judging.end()


class Judging:
    """A judgement under way: entries may come in parts, as from a cluster that runs."""

    def __init__(self, checkers: Sequence[type[Checker]] | None = None) -> None:
        self.scene = Scene()
        self.progress = Progress(self.scene)
        shared = Shared(self.scene, self.progress)
        self.raised: dict[str, str] = {}
        self.checkers: list[Checker] = []
        self._tables: list[tuple[str, Table]] = [
            ("scene", self.scene.table()),
            ("progress", self.progress.table()),
        ]
        for kind in CHECKERS.values() if checkers is None else checkers:
            self._add(kind, shared)
        self._takers = _Takers(self._takers_of)
        self._next_seq: dict[str, int] = {}
        self._count = 0

    def take(self, entries: Iterable[Entry]) -> None:
        """Give each entry to all who take its kind."""
        takers, next_seq, count, entry = self._takers, self._next_seq, 0, self.scene.last
        try:
            for count, entry in enumerate(entries, 1):  # noqa: B007  # how many, and the last
                node, seq, fact = entry.node, entry.seq, entry.fact
                if next_seq.get(node, 1) != seq and seq != 1:
                    self.scene.misses(node, seq, next_seq.get(node, 1))
                next_seq[node] = seq + 1
                for take in takers[type(fact)]:
                    try:
                        take(fact, entry)
                    except Exception as error:  # noqa: BLE001  # its defect is not the others'
                        self._drop(take, error, entry)
        finally:
            self._count += count
            self.scene.last = entry

    def end(self) -> Judgement:
        """The judgement of all that was taken."""
        seen = self._takers.keys()
        not_judged: dict[str, str] = {}
        numbers: dict[str, float] = {}
        for checker in self.checkers:
            if checker.name in self.raised:
                continue
            try:
                checker.end()
                why = self._why_not(checker, seen)
                found = checker.numbers()
            except Exception as error:  # noqa: BLE001
                self.raised[checker.name] = _text_of(error)
                continue
            if why:
                not_judged[checker.name] = why
                if not checker.violations:
                    continue
            numbers.update(found)
        violations = [each for checker in self.checkers for each in checker.violations]
        return Judgement(
            violations=tuple(sorted(violations, key=lambda each: (each.mono_us, each.node))),
            metrics=dict(sorted(numbers.items())),
            fact_count=self._count,
            not_judged=not_judged,
            raised=dict(self.raised),
            more_violations=sum(checker.more_violations for checker in self.checkers),
        )

    def _why_not(self, checker: Checker, seen: Iterable[type[Fact]]) -> str:
        if checker.needs and not set(checker.needs) & set(seen):
            names = " or ".join(kind.__name__ for kind in checker.needs)
            return f"the journal has no {names}"
        if checker.needs_whole and (missing := self.scene.what_is_missing()):
            return missing
        return checker.why_not()

    def _add(self, kind: type[Checker], shared: Shared) -> None:
        try:
            checker = kind(shared)
            self._tables.append((checker.name, checker.table()))
            self.checkers.append(checker)
        except Exception as error:  # noqa: BLE001
            self.raised[kind.name] = _text_of(error)

    def _takers_of(self, kind: type[Fact]) -> Takers:
        return tuple(
            table[kind]
            for name, table in self._tables
            if kind in table and name not in self.raised
        )

    def _drop(self, take: Take, error: Exception, entry: Entry) -> None:
        """Whose method *take* is gets no more entries."""
        (name,) = {name for name, table in self._tables if take in table.values()}
        self.raised[name] = f"{_text_of(error)}, at {entry.node} {entry.seq}"
        for kind in self._takers:
            self._takers[kind] = self._takers_of(kind)


class _Takers(dict[type[Fact], Takers]):
    """By kind, each worked out once; its keys are the kinds that were seen."""

    def __init__(self, find: Callable[[type[Fact]], Takers]) -> None:
        super().__init__()
        self._find = find

    def __missing__(self, kind: type[Fact]) -> Takers:
        found = self[kind] = self._find(kind)
        return found


def _text_of(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
