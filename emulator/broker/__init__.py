"""The broker: topics, messages, and who consumes what.

``Broker`` (in ``broker``) is a value that answers synchronously; ``service`` is the
shell around it: it listens, registers, and keeps time.
"""
