"""The configuration as one immutable value.

A ``Config`` that exists is free of contradictions.  It is small and pickles, so it may travel to executors; it then
carries the credentials, which it never prints.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Self

from pydantic import Field, PrivateAttr, model_validator

from chsink.config import problems
from chsink.config.clickhouse import ClickHouse
from chsink.config.kafka import Kafka
from chsink.config.problems import InvalidConfigError, Problem
from chsink.config.sections import Errors, InDoubt, Observe, Route, Sink, Spark, State, Trigger
from chsink.config.values import Section, TableName

DEFAULT_ORIGIN = "default"


class Config(Section):
    """Everything a job is told."""

    sink: Sink
    kafka: Kafka
    routes: tuple[Route, ...] = Field(alias="route")
    clickhouse: ClickHouse
    state: State = Field(default=State())
    errors: Errors = Field(default=Errors())
    trigger: Trigger = Field(default=Trigger())
    in_doubt: InDoubt = Field(default=InDoubt())
    observe: Observe = Field(default=Observe())
    spark: Spark = Field(default=Spark())

    _origins: dict[str, str] = PrivateAttr(default_factory=dict)

    @model_validator(mode="after")
    def _without_contradictions(self) -> Self:
        from chsink.config.checks import contradictions

        if found := contradictions(self, frozenset(type(self).model_fields)):
            raise InvalidConfigError(found)
        return self

    @classmethod
    def from_mapping(
        cls, data: Mapping[str, Any], *, source: str = "mapping", environ: Mapping[str, str] | None = None
    ) -> Config:
        """The configuration in ``data``, which is shaped like the job file.

        ``source`` is what provenance calls it.  ``environ`` (default: the process's) resolves ``{ env = … }``.
        Raises InvalidConfigError with every problem found.
        """
        from chsink.config.build import build, origins_in

        return build(data, origins_in(data, source), environ=os.environ if environ is None else environ)

    def origin(self, key: str) -> str:
        """Where the value of a dotted key came from: a file's name, ``environment variable X``, … or ``default``."""
        return self._origins.get(key, DEFAULT_ORIGIN)

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics, in the order of the routes."""
        return tuple(route.topic for route in self.routes)

    def route_of(self, topic: str) -> Route:
        """The one route of a topic (KeyError when there is none)."""
        return {route.topic: route for route in self.routes}[topic]

    def table_of(self, route: Route) -> TableName:
        """The route's table with its database."""
        return route.target.within(self.clickhouse.database)

    def shard_key_of(self, route: Route) -> tuple[str, ...]:
        """The columns that choose the shard of the route's rows; empty where there is one shard and no key."""
        return self.clickhouse.shard_key if route.shard_key is None else route.shard_key

    @property
    def state_table(self) -> TableName:
        """The KeeperMap table with its database."""
        return self.state.target.within(self.clickhouse.database)

    @property
    def state_endpoint(self) -> str:
        """The ClickHouse endpoint that serves the KeeperMap table."""
        return self.state.endpoint or self.clickhouse.endpoints[0].url

    @property
    def app_name(self) -> str:
        """What the cluster shows."""
        return self.spark.app_name or f"chsink {self.sink.name}"

    def required_checkpoint(self) -> str:
        """``sink.checkpoint``, which running needs.  Raises InvalidConfigError CHS-110 without one."""
        if self.sink.checkpoint is None:
            hint = 'set it to a folder or URI that outlives the driver: checkpoint = "s3a://bucket/checkpoints/flights"'
            raise InvalidConfigError([Problem(problems.NO_CHECKPOINT, "sink.checkpoint", "it is missing", hint)])
        return self.sink.checkpoint
