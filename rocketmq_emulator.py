"""Loaded only where the link ``rocketmq_emulator -> emulator`` beside it is missing.

Git makes links where the system has them; some archives and some systems do not, and then the
folder ``emulator`` has no name by which it can be imported.
"""

raise ImportError(
    "this checkout has no link rocketmq_emulator -> emulator: it was unpacked or checked out "
    "without symbolic links.  Clone it with `git clone -c core.symlinks=true`, or install "
    "rocketmq-emulator from a wheel or an sdist, which need no links",
    name="rocketmq_emulator",
)
