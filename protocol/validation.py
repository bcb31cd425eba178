"""Which names a client and a broker accept, and what they say of the others.

Every function returns the reason of a refusal, or None.  The two sides look at the
same things in a different order, so a name that is both too long and misspelt hears
different complaints.  Upstream: Validators.checkTopic, checkGroup;
TopicValidator.validateTopic.
"""

from __future__ import annotations

import re

TOPIC_CHARS_MAX = 127
GROUP_CHARS_MAX = 255
_PATTERN = "^[%|a-zA-Z0-9_-]+$"
_LEGAL = re.compile(_PATTERN)


def is_legal(name: str) -> bool:
    """Whether a name is made of the characters that names are made of; also the empty one.

    Upstream: TopicValidator.isTopicOrGroupIllegal.
    """
    return not name or (_LEGAL.match(name) is not None and name[-1] != "\n")


def client_refuses_topic(topic: str | None) -> str | None:
    """A client's answer to a topic it should use."""
    if topic is None or not topic.strip():
        return "The specified topic is blank"
    if len(topic) > TOPIC_CHARS_MAX:
        return f"The specified topic is longer than topic max length {TOPIC_CHARS_MAX}."
    if not is_legal(topic):
        return (
            f"The specified topic[{topic}] contains illegal characters, allowing only {_PATTERN}"
        )
    return None


def client_refuses_group(group: str | None) -> str | None:
    """A client's answer to the group it should be in."""
    if group is None or not group.strip():
        return "the specified group is blank"
    if len(group) > GROUP_CHARS_MAX:
        return f"the specified group is longer than group max length {GROUP_CHARS_MAX}."
    if not is_legal(group):
        return (
            f"the specified group[{group}] contains illegal characters, allowing only {_PATTERN}"
        )
    return None


def broker_refuses_topic(topic: str | None) -> str | None:
    """A broker's answer to a topic it should create."""
    if topic is None or not topic.strip():
        return "The specified topic is blank."
    if not is_legal(topic):
        return f"The specified topic contains illegal characters, allowing only {_PATTERN}"
    if len(topic) > TOPIC_CHARS_MAX:
        return "The specified topic is longer than topic max length."
    return None
