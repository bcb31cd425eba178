"""Errors that a caller can catch: of remote calls, and of clients."""
