"""All questions, in the order in which they are sent to a new broker."""

from __future__ import annotations

from tests.parity import questions_of_consumers as consumers
from tests.parity import questions_of_senders as senders
from tests.parity import questions_of_tools as tools
from tests.parity.question import Question, Step
from tests.parity.questions_of_administrators import ADMINISTRATION
from tests.parity.questions_of_filters import FILTERS
from tests.parity.questions_of_transactions import TRANSACTIONS

STEPS: tuple[Step, ...] = (
    *tools.FIRST,
    *senders.SENDING,
    *senders.BATCHES,
    *senders.RETRIES,
    *consumers.PULLING,
    *consumers.MEMBERS,
    *consumers.LOCKS,
    *consumers.OFFSETS,
    *tools.TOOLS,
    *consumers.LAX,
    *tools.LAX,
    *senders.LAX,
)


def titles_of(main: tuple[Step, ...]) -> list[str]:
    titles = [step.title for step in main if isinstance(step, Question)]
    assert len(titles) == len(set(titles)), "two questions have the same title"
    return titles


TITLES = titles_of(STEPS)
STEPS_OF = {
    "parity": STEPS,
    "administration": ADMINISTRATION,
    "transactions": TRANSACTIONS,
    "filters": FILTERS,
}
