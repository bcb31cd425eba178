"""The ext fields of every request and reply, by theme.

Names are Python's, the wire's follow by rule; where upstream breaks its own rule the
field names its key.  A field without a default is one upstream marks as required.
"""
