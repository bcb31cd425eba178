"""The control address of a running cluster: HTTP with JSON, for tests in any language.

``conversation`` is HTTP as bytes and values, ``routes`` says what is answered, ``server``
moves the bytes in a thread of its own.  Nothing here is loaded before the nodes run.
"""
