"""The NameServer: which brokers serve which topic.

``NameServer`` is a value that answers synchronously; ``service`` is the shell around it.
"""
