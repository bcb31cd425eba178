"""Bugs by name: each is a class that replaces the correct class of a role.

``settings/quirks.py`` lists them; nothing else of the project imports these classes.  A role
calls ``class_for(Pulling, "consumer", config.quirks)`` for the class to construct, and gets
``Pulling`` unless one of its bugs replaces it.
"""
