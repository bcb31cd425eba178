"""What the tests would not notice: small changes of the code, each run against the tests.

A mutant is the code with one operator, constant or argument changed.  It is caught when a test
fails, never ends, or mypy refuses it; else it survives, and is either a missing test or a change
that nobody can see.  This package measures the modules that decide where a message goes
(``modules``), and keeps a reason for each survivor (``survivors.toml``).
"""
