"""``demo``: your own lines flow through a cluster while a consumer and a broker are killed.

``run`` says what happens when, ``member`` is a producer or a consumer as a process,
``ledger`` counts what their facts prove, ``screen`` draws it.
"""
