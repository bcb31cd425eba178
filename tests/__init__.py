"""The tests: folders mirror those of the sources; code shared by tests is in ``tests.support``.

``tests/<folder>/test_<module>.py`` tests that module; the name of a second file on the same
module also contains its topic (``test_pulling_refusals.py``), and a file on a whole folder has
the folder's name.  Other folders: ``sdk``, ``mqadmin`` and ``parity`` (clients and tools of
RocketMQ), ``durability`` (processes that are killed), ``docs``, ``examples`` and ``tools``.
"""
