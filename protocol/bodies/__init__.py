"""The JSON bodies of requests and replies, by theme.

A body is a struct of values with upstream's defaults.  Its text depends on the release of the
writer: ``since`` lists the members that older releases do not have.
"""
