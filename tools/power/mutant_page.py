"""The second part of docs/power.md: the share of mutants that checkers see, by module."""

from __future__ import annotations

import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from tools.power.drawing import Drawn, Mutant
from tools.power.page import PAGE, with_part

BEGIN = "<!-- written by tools.power.mutants -->"
END = "<!-- end of what tools.power.mutants wrote -->"
REASONS = Path(__file__).parent / "unseen.toml"
SAMPLE = 40
HEADINGS = (
    *("module", "mutants", "drawn", "a rule objects"),
    *("no result", "expectation", "not executed", "same journals", "other journals", "seen"),
)
NOTHING = ("unexecuted", "same", "differs")  # outcomes of mutants that are not noticed
Kind: TypeAlias = Literal["equal", "not reached", "too mild", "no promise", "missing rule"]
KINDS: Mapping[Kind, str] = {
    "equal": "A user could not notice any difference",
    "not reached": "Weather never executes this code, or never with a value that matters",
    "too mild": "A rule forbids the consequence, but weather is too mild to cause it",
    "no promise": "The run differs, and RocketMQ promises nothing about it",
    "missing rule": "The behaviour is wrong, and no rule forbids it",
}

Rows = Mapping[str, Mapping[str, Any]]


class Reason(NamedTuple):
    """Why no rule objects to a mutant."""

    kind: Kind
    why: str


def write(drawn: Mapping[str, Drawn], rows: Rows) -> None:
    """Replace the generated part of the page."""
    PAGE.write_text(with_part(PAGE.read_text(), BEGIN, END, text_of(drawn, rows, load_reasons())))


def load_reasons() -> dict[str, Reason]:
    """The reasons, by the ``key`` of their mutant."""
    groups = tomllib.loads(REASONS.read_text()).get("reason", [])
    return {
        text: Reason(group["kind"], group["why"]) for group in groups for text in group["changes"]
    }


def without_reason(drawn: Mapping[str, Drawn], rows: Rows) -> list[str]:
    """The keys of mutants of the sample without a reason."""
    reasons = load_reasons()
    return [mutant.key for mutant in sample_of(drawn, rows) if mutant.key not in reasons]


def sample_of(drawn: Mapping[str, Drawn], rows: Rows) -> list[Mutant]:
    """The first mutants by rank to which no rule objects: a sample that seldom changes."""
    every = [mutant for one in drawn.values() for mutant in one.killed]
    unseen = [mutant for mutant in every if _outcome(mutant, rows) in ("unmet", *NOTHING)]
    return sorted(unseen, key=lambda mutant: mutant.rank)[:SAMPLE]


def _outcome(mutant: Mutant, rows: Rows) -> str:
    row = rows.get(mutant.key)
    if row is None or row["how"] == "gone":
        return "not run"
    if row["how"]:
        return str(row["how"])
    if row["unmet"]:
        return "unmet"
    if not row["reached"]:
        return "unexecuted"
    return "differs" if row["differ"] else "same"


def text_of(drawn: Mapping[str, Drawn], rows: Rows, reasons: Mapping[str, Reason]) -> str:
    """The counts, by module and by rule, and the sample with its reasons."""
    counts = {name: _counts(one.killed, rows) for name, one in drawn.items()}
    lines = [
        _summary(sum(counts.values(), Counter[str]())),
        "",
        _line(HEADINGS),
        "|" + "---|" * len(HEADINGS),
        *(_line(_cells(name, drawn[name], counts[name])) for name in drawn),
        "",
        f"Rules that objected first, and to how many mutants: {', '.join(_by_rule(rows))}.",
    ]
    sample = sample_of(drawn, rows)
    if sample:
        lines += ["", f"### Why {len(sample)} of them are not seen", *_sample(sample, reasons)]
    return "\n".join(lines) + "\n"


def _summary(total: Counter[str]) -> str:
    run = total.total() - total["not run"]
    nothing = sum(total[each] for each in NOTHING)
    return (
        f"{run} of {total.total()} mutants were run. A rule objects to {total['rule']} of them "
        f"({_share(total['rule'], run)}); {total['error']} more "
        f"({_share(total['error'], run)}) crash a run or make it endless; with {total['unmet']} "
        f"only an expectation is not met, and {nothing} are not noticed: "
        f"{total['unexecuted']} are in statements that no run executes, {total['same']} change "
        f"no journal, and {total['differs']} change journals."
    )


def _counts(mutants: list[Mutant], rows: Rows) -> Counter[str]:
    return Counter(_outcome(mutant, rows) for mutant in mutants)


def _cells(name: str, one: Drawn, counts: Counter[str]) -> tuple[str, ...]:
    run = counts.total() - counts["not run"]
    outcomes = (counts[each] for each in ("rule", "error", "unmet", *NOTHING))
    share = _share(counts["rule"] + counts["error"], run)
    return (name, str(one.mutants), str(len(one.killed)), *map(str, outcomes), share)


def _share(part: int, of: int) -> str:
    return f"{part / max(1, of):.0%}"


def _line(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"


def _by_rule(rows: Rows) -> Iterator[str]:
    counts = Counter(rule for row in rows.values() for rule in row.get("rules", ()))
    yield from (f"`{rule}` {count}" for rule, count in counts.most_common())


def _sample(sample: list[Mutant], reasons: Mapping[str, Reason]) -> Iterator[str]:
    by_kind: dict[str, dict[str, list[Mutant]]] = defaultdict(lambda: defaultdict(list))
    for mutant in sample:
        kind, why = reasons.get(mutant.key, ("", "No reason yet."))
        by_kind[kind][why].append(mutant)
    for kind, title in [("", "Unknown"), *KINDS.items()]:
        if groups := by_kind.get(kind):
            count = sum(map(len, groups.values()))
            yield from ("", f"**{title}** ({count}):", "")
            for why, mutants in groups.items():
                yield f"- {why}"
                yield from (f"  - {_code(mutant)}" for mutant in mutants)


def _code(mutant: Mutant) -> str:
    text = f"{mutant.function}: {mutant.change}"
    fence = "``" if "`" in text else "`"
    return f"`{mutant.file.rpartition('/')[2]}` {fence}{text}{fence}"
