"""RocketMQ's remoting protocol: bytes to values and back, and nothing else.

Pure: no sockets, no clock, no randomness.  A *frame* is cut from a stream (``framing``),
becomes a *command* (``command``), whose ext fields and body become the typed request of
an *Rpc* (``catalog``).  Stored messages have a layout of their own (``records``).
"""

if __name__ != "rocketmq_emulator.protocol":
    raise ImportError(f"import rocketmq_emulator.protocol instead of {__name__}", name=__name__)
