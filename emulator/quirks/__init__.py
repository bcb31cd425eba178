"""Bugs that have a name: each a class that takes the place of the right one in a role.

``settings/quirks.py`` lists them; nothing else of the project imports these classes.  A role asks
``class_for(Pulling, config.quirks)`` for the class to build, and gets ``Pulling`` unless a bug of
that name replaces it.
"""
