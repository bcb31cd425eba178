"""The tests: folders mirror those of the sources, and what tests share is in ``tests.support``.

``tests/<folder>/test_<module>.py`` tests that module; a second file on the same module adds what
it is about (``test_pulling_refusals.py``), and a file on a whole folder has the folder's name.
Beside them: ``sdk``, ``mqadmin`` and ``parity`` (clients and tools of RocketMQ), ``durability``
(processes that are killed), ``docs``, ``examples`` and ``tools``.
"""
