"""A journal in words: facts as sentences, many of a kind as one line, queues and their owners.

Pure: entries go in, text comes out.  ``scenarios.after.explaining`` explains violations with it.
"""
