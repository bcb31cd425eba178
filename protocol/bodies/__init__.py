"""The JSON bodies of requests and replies, by theme.

A body is a struct of values with upstream's defaults; what it looks like on the wire
depends on the release that writes it, and each class says which members are newer.
"""
