"""One ClusterSpec, three ways to run it: processes, embedded in one thread, virtual.

This package imports nothing itself: a node's process loads only the modules that it runs.
"""
