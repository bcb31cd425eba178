"""A world of machines in one process: virtual time, network, disks, all from one seed.

It moves bytes and knows nothing of what they mean.  ``run_virtual`` in ``world`` is the
way in; the code that runs inside is the same that runs on real sockets.
"""
