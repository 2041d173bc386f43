"""The section ``[kafka]``: where records come from, and how both Kafka clients connect."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from chsink.config import problems
from chsink.config.librdkafka import Translation, translate
from chsink.config.problems import InvalidConfigError, Problem
from chsink.config.values import AsTuple, ClientOptions, HostPorts, KafkaOptions, Section, Topic, reveal


class Kafka(Section):
    """Where the records come from.

    Spark's source (Java) and chsink's own look-ups (librdkafka) use the same cluster. State the connection once, in
    Java's names, under `[kafka.options]`: chsink translates it for the other client.
    """

    bootstrap: HostPorts = Field(description='Brokers to start from: `"host:port,host:port"`, or a list.')
    topics: Annotated[tuple[Topic, ...], AsTuple] | None = Field(
        default=None,
        description="A second statement of the topics; left out, those of the routes. Any difference is an error.",
    )
    starting_offsets: Literal["earliest", "latest"] = Field(
        default="earliest",
        description="Where a partition without recorded state starts. A recorded one goes on at its recorded end.",
    )
    max_offsets_per_trigger: int | None = Field(
        default=None, gt=0, description="Most offsets a micro-batch plans, over all partitions; left out, unbounded."
    )
    isolation_level: Literal["read_committed", "read_uncommitted"] = Field(
        default="read_committed", description="Whether records of aborted transactions are left out."
    )
    timeout_s: float = Field(default=20, gt=0, le=600, description="Bound of a question about topics and offsets.")
    options: KafkaOptions = Field(
        default_factory=dict,
        description=(
            "Properties of the Kafka client, in Java's names, without `kafka.` in front: SASL, TLS, fetch sizes. "
            'A value is a text, number, boolean, `{ env = "NAME" }` or `{ file = "path" }`.'
        ),
    )
    client_options_: ClientOptions = Field(
        default_factory=dict,
        alias="client_options",
        description="Properties of librdkafka, laid over the translated ones. Rarely needed.",
    )

    def spark_options(self) -> dict[str, str]:
        """Options of Spark's Kafka source that concern the client: ``kafka.…``, with credentials in the clear."""
        options = {f"kafka.{name}": reveal(value) for name, value in self.options.items()}
        return options | {
            "kafka.bootstrap.servers": self.bootstrap,
            "kafka.isolation.level": self.isolation_level,
        }

    def client_options(self) -> dict[str, str]:
        """Properties of a librdkafka client, with credentials in the clear.

        Raises InvalidConfigError CHS-109 when ``options`` hold what librdkafka has no counterpart of; a loaded
        configuration has been checked for that.
        """
        translation = self.translated()
        if translation.refused:
            raise InvalidConfigError(
                Problem(problems.UNTRANSLATABLE, f"kafka.options.{refused.option}", refused.message, refused.hint)
                for refused in translation.refused
            )
        return {"bootstrap.servers": self.bootstrap} | translation.options

    def translated(self) -> Translation:
        """``options`` for librdkafka, and what of them has no counterpart."""
        java = {name: reveal(value) for name, value in self.options.items()}
        return translate(java, {name: reveal(value) for name, value in self.client_options_.items()})
