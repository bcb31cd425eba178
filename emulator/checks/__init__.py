"""Checkers: they judge a cluster by the journal that it wrote.

They read facts and no running system; each is a fold over entries in the order of time.

    judge(read_journals([Path("run.jsonl")])) -> Judgement   # ``judging``, ``reading``
    CHECKERS, METRICS                                        # ``table``: all of them
"""
