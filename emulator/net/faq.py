"""The page that refusals end with, in upstream's words.

NameServers and brokers both name it; which page it is depends on the release.
"""

from __future__ import annotations

from emulator.releases import FAQ_AT_BEST_PRACTICE, Release

_PAGE = "http://rocketmq.apache.org/docs/faq/"
_PAGE_5 = "https://rocketmq.apache.org/docs/bestPractice/06FAQ"


def see_faq(release: Release) -> str:
    """What a remark of *release* ends with, a line break included.

    Upstream: FAQUrl.suggestTodo.
    """
    page = _PAGE_5 if release >= FAQ_AT_BEST_PRACTICE else _PAGE
    return f"\nSee {page} for further details."
