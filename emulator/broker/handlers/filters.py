"""Which subscriptions a broker can filter by.

Tags are compared as hash codes.  Any other type is refused in upstream's two ways: by a
broker that was not told to filter by properties, and by one that was and cannot read the
expression.  This one reads none yet; SQL92 has its place here.

Upstream: ConsumerFilterManager, FilterFactory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.net.results import Refusal
from protocol.codes import ResponseCode
from protocol.subscription import is_tag_type

if TYPE_CHECKING:
    from emulator.config import BrokerConfig


def check_expression_type(kind: str | None, config: BrokerConfig) -> None:
    """Can messages be chosen by an expression of that type?  Raises ``Refusal``."""
    if is_tag_type(kind):
        return
    if not config.property_filter:
        raise Refusal(
            ResponseCode.SYSTEM_ERROR,
            f"The broker does not support consumer to filter message by {kind}",
        )
    raise Refusal(
        ResponseCode.SUBSCRIPTION_PARSE_FAILED,
        f"parse the consumer's subscription failed: expressions of type {kind} are not read here",
    )
