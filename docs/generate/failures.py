"""The tables of docs/failures.md and its picture, both from one run of ``failure_run``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from docs.generate import failure_run as story
from docs.generate.drawing import picture
from docs.generate.episodes import Seen, events, facts_of_a_run
from docs.generate.sections import DOCS, write_section

PAGE, PICTURE = DOCS / "failures.md", DOCS / "failures.svg"


class Episode(NamedTuple):
    """From one fault until the next."""

    name: str
    begin_s: int
    end_s: int


EPISODES = (
    Episode("consumer killed", story.CONSUMER_KILLED_S, story.CONSUMER_BACK_S),
    Episode("consumer joins", story.CONSUMER_BACK_S, story.CONSUMER_SILENT_S),
    Episode("consumer silent", story.CONSUMER_SILENT_S, story.BROKER_KILLED_S),
    Episode("broker killed", story.BROKER_KILLED_S, story.BROKER_BACK_S),
    Episode("broker back", story.BROKER_BACK_S, story.BROKER_SILENT_S),
    Episode("broker silent", story.BROKER_SILENT_S, story.END_S),
)


def sections(facts: Sequence[Seen]) -> Iterator[tuple[str, str]]:
    """The name and the Markdown table of each section of the page."""
    for name, begin_s, end_s in EPISODES:
        rows = [f"| +{at_s:.1f} s | {text} |" for at_s, text in events(facts, begin_s, end_s)]
        yield name, "\n".join(["| after | event |", "| ---: | --- |", *rows])
    yield "account", _account(facts)


def _account(facts: Sequence[Seen]) -> str:
    """The results of all sends; messages of a silent broker are not delivered."""
    sent = {
        f.fact["uniq_key"]: f.fact["queue"]["broker"] for f in facts if f.kind == "MessageSent"
    }
    failed = [f for f in facts if f.kind == "SendFailed"]
    consumed = [f for f in facts if f.kind == "MessageConsumed"]
    keys = {f.fact["uniq_key"] for f in consumed}
    rows = {
        "acknowledged sends": len(sent),
        "failed sends": len(failed),
        "of these, perhaps stored": sum(f.fact["maybe_stored"] for f in failed),
        "deliveries": len(consumed),
        "delivered twice": len(consumed) - len(keys),
        "acknowledged, not delivered": len(sent.keys() - keys),
    }
    return "\n".join(["| | |", "| --- | ---: |", *(f"| {k} | {n:,} |" for k, n in rows.items())])


def main() -> None:
    facts = facts_of_a_run()
    PICTURE.write_text(picture(facts))
    for name, text in sections(facts):
        write_section(PAGE, name, text)


if __name__ == "__main__":
    main()
