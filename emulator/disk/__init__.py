"""Disks of files and of memory, and the ``Disk`` interface of a store (in ``port``)."""
