"""One ClusterSpec, three ways to run it: processes, embedded in one thread, virtual.

Nothing is imported here: a node that is about to be started pays for what it runs only.
"""
