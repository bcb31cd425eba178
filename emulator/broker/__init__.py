"""The broker: topics, messages, and who consumes what.

``Broker`` (in ``broker``) is a value: tables, store, outlets.  ``handlers`` answer calls with
it, synchronously; ``service`` is the shell around both: it listens, registers, and runs
what is due.
"""
