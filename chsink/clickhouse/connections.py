"""The clients of a job's ClickHouse servers, made when they are asked for and closed together."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace

from chsink.clickhouse.client import ClickHouseClient, Connection
from chsink.config import Config


class Connections:
    """``access`` has the settings of the first shard; other shards differ in their URLs only."""

    def __init__(self, config: Config) -> None:
        ch = config.clickhouse
        self.access = Connection(
            urls=ch.endpoints[0].urls,
            user=ch.user,
            password=ch.password.get_secret_value(),
            ca_file=ch.tls.ca_file,
            cert_file=ch.tls.cert_file,
            key_file=ch.tls.key_file,
            verify=ch.tls.verify,
            compression=ch.compression,
            connect_timeout_s=ch.connect_timeout_s,
            send_receive_timeout_s=ch.insert_timeout_s,
        )
        self._closing = ExitStack()
        self._open: dict[tuple[tuple[str, ...], float], ClickHouseClient] = {}

    def client(self, urls: Sequence[str], answer_within_s: float | None = None) -> ClickHouseClient:
        """The client of these replicas; a statement may take as long as an insert, or ``answer_within_s``.

        The same one for whoever asks: a job asks at each start after an error or an altered table, and keeps running.
        """
        at = tuple(urls), answer_within_s or self.access.send_receive_timeout_s
        if at not in self._open:
            self._open[at] = client = ClickHouseClient(replace(self.access, urls=at[0], send_receive_timeout_s=at[1]))
            self._closing.callback(client.close)
        return self._open[at]

    def close(self) -> None:
        """Release every connection that was made."""
        self._closing.close()
