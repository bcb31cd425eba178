"""A world of machines in one process: virtual time, network and disks, decided by one seed.

It moves bytes and does not decode them.  ``run_virtual`` in ``world`` starts it; the code that
runs inside is the same that runs on real sockets.
"""
