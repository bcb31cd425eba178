"""What a consume queue keeps of a record besides its place: one number to filter by.

The same function makes it when a message is stored and when a log is read again after a
crash, so the two can never disagree.

Upstream: CommitLog.checkMessageAndReturnSize, DispatchRequest.
"""

from __future__ import annotations

from protocol.delay_levels import DelayLevels
from protocol.names import SCHEDULE_TOPIC
from protocol.properties import DELAY, TAGS
from protocol.property_text import property_of
from protocol.sysflag import TRANSACTION_PREPARED
from protocol.tags import tag_code


def index_code(topic: str, properties: str, store_ms: int, levels: DelayLevels) -> int:
    """The tag's hash; for a message that waits for a delay to pass, the time it is due."""
    if topic == SCHEDULE_TOPIC and DELAY in properties:
        level = levels.clamp(delay_level(properties))
        if level > 0:
            return levels.deliver_ms(level, store_ms)
    return tag_code(property_of(properties, TAGS)) if TAGS in properties else 0


def delay_level(properties: str) -> int:
    """The level a DELAY property asks for; 0 without one, and for what is no number."""
    if DELAY not in properties:
        return 0
    try:
        return int(property_of(properties, DELAY) or 0)
    except ValueError:
        return 0


def is_indexed(sys_flag: int) -> bool:
    """Prepared and rolled-back messages are in the log only: no queue knows them."""
    # The type is a field of two bits, and of the four values just these two have this bit.
    return not sys_flag & TRANSACTION_PREPARED
