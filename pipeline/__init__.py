"""All code that uses Apache Spark: tables of journals, sweeps of seeds, topics as a source.

Users import it as ``rocketmq_emulator.spark``; it needs the extra ``spark`` and Java 17 or later.
"""

if __name__ != "rocketmq_emulator.pipeline":
    raise ImportError(f"import rocketmq_emulator.pipeline instead of {__name__}", name=__name__)
