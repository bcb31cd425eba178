"""The control address of a running cluster: HTTP with JSON, for tests in any language.

``http_connection`` parses HTTP without a socket, ``routes`` answers each request, ``server``
listens in its own thread.  None of these modules is loaded before the nodes run.
"""
