"""The ext fields of every request and reply, by theme.

The key on the wire is the camelCase name of the field; a field with another key states it.  A
field without a default is one that upstream marks as required.
"""
