"""Checkers: what a journal proves, or disproves, about the cluster that wrote it.

They read facts and nothing that runs; each is a fold over entries in the order of time.

    judge(read_journals([Path("run.jsonl")])) -> Judgement   # ``judging``, ``reading``
    CHECKERS, METRICS                                        # ``table``: all there are
"""
