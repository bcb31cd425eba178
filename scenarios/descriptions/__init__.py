"""A journal in words: facts as sentences, many of a kind as one line, queues and their owners.

Pure: entries go in, text comes out.  What went wrong in it is ``scenarios.after.explaining``'s.
"""
