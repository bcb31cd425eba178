"""Commands whose output differs from a real cluster's, each with its reason; all others agree.

The order of lines is not compared, because upstream iterates over hash tables.  The page
docs/mqadmin.md is generated from this file and from the recorded outputs.
"""

from __future__ import annotations

from typing import NamedTuple

BOTH = ("4.9.7", "5.3.3")


class Difference(NamedTuple):
    """The reason of a difference, and the releases that have it."""

    reason: str
    releases: tuple[str, ...] = BOTH


OWN_SETTINGS = "fewer lines: only the settings that exist here are listed"
NO_ACCESS_CONTROL = Difference("not supported: there are no users and no permissions")

DIFFERENCES: dict[str, Difference] = {
    "queryCq -t Orders -q 3 -i 0 -c 5": Difference(
        "an empty queue is reported as not there; upstream makes a queue as soon as topicStatus "
        "asks about it"
    ),
    "statsAll -t Orders": Difference(
        "one line less: 5.3.3 lists the topic itself as one of its groups", ("5.3.3",)
    ),
    "getBrokerConfig -b {broker}": Difference(OWN_SETTINGS),
    "getColdDataFlowCtrInfo -b {broker}": Difference(
        "not supported: all messages are in memory or in mapped files, none is cold"
    ),
    "listUser -b {broker}": NO_ACCESS_CONTROL,
    "listAcl -b {broker}": NO_ACCESS_CONTROL,
}
