"""What a NameServer answers: one file a theme; ``table`` says which handler answers which call.

Upstream: DefaultRequestProcessor, ClientRequestProcessor.
"""
