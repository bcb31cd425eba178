"""The whole story of questions, in the order in which they are sent to a new broker."""

from __future__ import annotations

from parity import questions_of_consumers as consumers
from parity import questions_of_senders as senders
from parity import questions_of_tools as tools
from parity.question import Question, Step

STORY: tuple[Step, ...] = (
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
TITLES = [step.title for step in STORY if isinstance(step, Question)]
assert len(TITLES) == len(set(TITLES)), "a title names one question"
