"""More brokers of a local cluster, of which the first keeps the only controller."""

from __future__ import annotations

from pathlib import Path

from chsink.embedded.base.service import local
from chsink.embedded.kafka import EmbeddedKafka


def another_broker(path: Path, first: EmbeddedKafka, node: int = 2) -> EmbeddedKafka:
    """Another broker of the cluster of ``first``, which runs; it is not started."""
    of_first = (first.path / "data" / "meta.properties").read_text().splitlines()
    kept = [line for line in of_first if line.startswith(("version=", "cluster.id="))]
    (path / "data").mkdir(parents=True)
    (path / "data" / "meta.properties").write_text("\n".join([*kept, f"node.id={node}", ""]))
    broker = EmbeddedKafka(path)
    broker.properties = {
        "process.roles": "broker",
        "node.id": str(node),
        "controller.quorum.voters": f"1@{local(first._controller_port)}",
        "listeners": f"PLAINTEXT://{broker.bootstrap}",
    }
    return broker
