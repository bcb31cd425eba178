"""The NameServer: the routes from topics to brokers.

``NameServer`` is a value that answers synchronously; ``service`` is the shell around it.
"""
