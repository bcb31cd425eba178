"""What runs in an application: producers, consumers, and the instance they share.

Tables and choices are plain values; ``instance``, ``producer`` and the consumers are the
shells that wait.
"""
