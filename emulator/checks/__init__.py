"""Checkers: what a journal proves, or disproves, about the cluster that wrote it.

They read facts and nothing that runs; each is a fold over entries in the order of time.
"""
