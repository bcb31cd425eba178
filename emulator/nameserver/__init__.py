"""The NameServer: who serves which topic.

``NameServer`` is a value that answers synchronously; ``service`` is the shell around it.
"""
