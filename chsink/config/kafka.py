"""The section ``[kafka]``: where records come from, and how both Kafka clients connect."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from chsink.config.librdkafka import Translation, translate
from chsink.config.options import ClientOptions, KafkaOptions
from chsink.fields import HostPorts, Section, reveal


class Kafka(Section):
    """Where the records come from.

    Spark's source (a Java client) and chsink's own queries for topics and offsets (librdkafka) use the same cluster.
    Describe the connection once, with Java's option names, in `[kafka.options]`: chsink translates it for librdkafka.
    """

    bootstrap: HostPorts
    """Bootstrap servers: `"host:port,host:port"`, or a list."""
    starting_offsets: Literal["earliest", "latest"] = "earliest"
    """Where to begin at the first start, for a new topic and after a reset. Other partitions without a record begin
    at the first offset."""
    max_offsets_per_trigger: int | None = Field(default=None, gt=0)
    """Maximum offsets per micro-batch, over all partitions. Default: no limit. A batch that is too large is landed
    in rounds."""
    isolation_level: Literal["read_committed", "read_uncommitted"] = "read_committed"
    """`read_committed` leaves out records of aborted transactions."""
    timeout_s: float = Field(default=20, gt=0, le=600)
    """Timeout of a query for topics or offsets, in seconds."""
    options: KafkaOptions = Field(default_factory=dict)
    """Options of the Kafka client, with Java's names and without the prefix `kafka.`: SASL, TLS, fetch sizes. A
    value is text, a number, a boolean, `{ env = "NAME" }` or `{ file = "path" }`."""
    client_options_: ClientOptions = Field(default_factory=dict, alias="client_options")
    """Options of librdkafka, which override the translated ones. Rarely needed."""

    def spark_options(self) -> dict[str, str]:
        """Options of Spark's Kafka source that concern the client: ``kafka.…``, with credentials in the clear."""
        options = {f"kafka.{name}": reveal(value) for name, value in self.options.items()}
        return options | {
            "kafka.bootstrap.servers": self.bootstrap,
            "kafka.isolation.level": self.isolation_level,
        }

    def client_options(self) -> dict[str, str]:
        """Properties of a librdkafka client, with credentials in the clear."""
        translation = self.translated()
        assert not translation.refused, "a Config is made only when every option has a counterpart (config.checks)"
        return {"bootstrap.servers": self.bootstrap} | translation.options

    def translated(self) -> Translation:
        """``options`` for librdkafka, and what of them has no counterpart."""
        java = {name: reveal(value) for name, value in self.options.items()}
        return translate(java, {name: reveal(value) for name, value in self.client_options_.items()})
