"""The broker: topics, messages, and consumer groups.

``Broker`` (in ``state.broker``) is a value: tables, store, outlets.  ``handlers`` answer calls
with it, synchronously; ``service`` is the shell around both: it listens, registers, and runs
the scheduled tasks.
"""
