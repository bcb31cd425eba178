"""The whole stories of questions, in the order in which they are sent to a new broker."""

from __future__ import annotations

from parity import questions_of_consumers as consumers
from parity import questions_of_senders as senders
from parity import questions_of_tools as tools
from parity.question import Question, Step
from parity.questions_of_administrators import STORY_OF_ADMINISTRATORS

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


def titles_of(story: tuple[Step, ...]) -> list[str]:
    titles = [step.title for step in story if isinstance(step, Question)]
    assert len(titles) == len(set(titles)), "a title names one question"
    return titles


TITLES = titles_of(STORY)
STORIES = {"parity": STORY, "administration": STORY_OF_ADMINISTRATORS}
