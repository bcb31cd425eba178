"""``demo``: lines of a file flow through a cluster while a consumer and a broker are killed.

``run`` runs the timeline, ``member`` is the process of a producer or consumer, ``ledger`` counts
their facts, ``screen`` draws the run.
"""
