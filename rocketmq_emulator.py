"""Imported only if the link ``rocketmq_emulator -> emulator`` beside it is missing.

Git creates symbolic links if the system supports them; some archives and systems do not support
them, and then the folder ``emulator`` cannot be imported as ``rocketmq_emulator``.
"""

raise ImportError(
    "this checkout has no link rocketmq_emulator -> emulator: it was unpacked or checked out "
    "without symbolic links.  Clone it with `git clone -c core.symlinks=true`, or install "
    "rocketmq-emulator from a wheel or an sdist, which need no links",
    name="rocketmq_emulator",
)
