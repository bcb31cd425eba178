"""The calls a NameServer answers: one file a theme; ``table`` maps calls to handlers.

Upstream: DefaultRequestProcessor, ClientRequestProcessor.
"""
