"""``spark.read.format("rocketmq")`` and its three sisters: what Spark asks, and who answers.

spark.read.format("rocketmq").option("namesrv", "127.0.0.1:9876").option("topic", "orders")
"""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from pipeline.source.batch_read import RocketMQBatchReader
from pipeline.source.errors import BadOption
from pipeline.source.options import source_options
from pipeline.source.row_shape import ROW_SHAPE, check_shape
from pipeline.source.sink_options import sink_options
from pipeline.source.stream_read import RocketMQStreamReader
from pipeline.source.writing import RocketMQStreamWriter, RocketMQWriter


class RocketMQDataSource(DataSource):
    """Topics of RocketMQ as rows.  See docs/spark-source.md."""

    @classmethod
    def name(cls) -> str:
        """What stands in ``format(…)``."""
        return "rocketmq"

    def schema(self) -> StructType:
        """All columns, for who asks for none.  Raises ``BadOption``."""
        source_options(self.options)
        return ROW_SHAPE

    def reader(self, schema: StructType) -> RocketMQBatchReader:
        """Of ``spark.read``.  Raises ``BadOption``."""
        check_shape(schema)
        return RocketMQBatchReader(source_options(self.options), schema)

    def streamReader(self, schema: StructType) -> RocketMQStreamReader:  # noqa: N802  # Spark's
        """Of ``spark.readStream``.  Raises ``BadOption``."""
        check_shape(schema)
        return RocketMQStreamReader(source_options(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> RocketMQWriter:
        """Of ``df.write``.  Raises ``BadOption``."""
        if overwrite:
            raise BadOption('topics cannot be overwritten: mode("append")')
        return RocketMQWriter(sink_options(self.options, schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> RocketMQStreamWriter:  # noqa: N802
        """Of ``df.writeStream``.  Raises ``BadOption``."""
        if overwrite:
            raise BadOption(
                'a topic takes messages, it has no rows to replace: outputMode("append")'
            )
        return RocketMQStreamWriter(sink_options(self.options, schema))


def register(spark: SparkSession) -> None:
    """Let *spark* know the format, where it is not found by itself (``pyspark_rocketmq``)."""
    spark.dataSource.register(RocketMQDataSource)
