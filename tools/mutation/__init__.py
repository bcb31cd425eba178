"""Mutation testing: run the tests against small changes of the code.

A mutant is the code with one operator, constant or argument changed.  It is caught if mypy refuses
it, a test fails, or a test never ends.  Otherwise it survives: a test is missing, or the change
has no visible effect.  This package measures the modules that decide where a message goes
(``modules``), and keeps a reason for each survivor (``survivors.toml``).
"""
