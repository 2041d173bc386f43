"""What decoding costs by format: the same orders as JSON, Avro and Protobuf, in turns in one process, without services.

Rows per second of CPU time, the best of the rounds.  The decoded batches must be equal.
"""

from __future__ import annotations

import io
import json
import random
import time
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
from google.protobuf import descriptor_pb2, message_factory, text_format

from bench.speed import WrongRowsError
from chsink.decode.columns import Column
from chsink.fields import TextFile
from chsink.formats.metadata import Columns
from chsink.formats.records import Records
from chsink.formats.settings import JSON, Avro, FormatSettings, Protobuf

ORDERS = 100_000
GOALS = {"avro": 0.67, "protobuf": 0.5}
"""Of JSON's rows per second."""
COLUMNS = {
    "id": "Int64",
    "customer": "String",
    "country": "Nullable(String)",
    "status": "Enum8('new' = 0, 'paid' = 1, 'sent' = 2)",
    "amount": "Decimal(12, 2)",
    "quantity": "Int32",
    "weight": "Float64",
    "created": "DateTime64(3, 'UTC')",
    "paid": "Bool",
    "note": "Nullable(String)",
    "tags": "Array(String)",
}
AVRO: dict[str, Any] = {
    "id": "long",
    "customer": "string",
    "country": ["null", "string"],
    "status": {"type": "enum", "name": "Status", "symbols": ["new", "paid", "sent"]},
    "amount": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2},
    "quantity": "int",
    "weight": "double",
    "created": {"type": "long", "logicalType": "timestamp-millis"},
    "paid": "boolean",
    "note": ["null", "string"],
    "tags": {"type": "array", "items": "string"},
}
PROTO = """file { name: "google/protobuf/timestamp.proto" package: "google.protobuf" syntax: "proto3"
  message_type { name: "Timestamp"
    field { name: "seconds" number: 1 type: TYPE_INT64 label: LABEL_OPTIONAL }
    field { name: "nanos" number: 2 type: TYPE_INT32 label: LABEL_OPTIONAL } } }
file { name: "orders.proto" syntax: "proto3" dependency: "google/protobuf/timestamp.proto"
  enum_type { name: "Status" value { name: "new" number: 0 } value { name: "paid" number: 1 } value { name: "sent" number: 2 } }
  message_type { name: "Order" oneof_decl { name: "_country" } oneof_decl { name: "_note" }
    field { name: "id" number: 1 type: TYPE_INT64 label: LABEL_OPTIONAL }
    field { name: "customer" number: 2 type: TYPE_STRING label: LABEL_OPTIONAL }
    field { name: "country" number: 3 type: TYPE_STRING label: LABEL_OPTIONAL proto3_optional: true oneof_index: 0 }
    field { name: "status" number: 4 type: TYPE_ENUM type_name: ".Status" label: LABEL_OPTIONAL }
    field { name: "amount" number: 5 type: TYPE_STRING label: LABEL_OPTIONAL }
    field { name: "quantity" number: 6 type: TYPE_INT32 label: LABEL_OPTIONAL }
    field { name: "weight" number: 7 type: TYPE_DOUBLE label: LABEL_OPTIONAL }
    field { name: "created" number: 8 type: TYPE_MESSAGE type_name: ".google.protobuf.Timestamp" label: LABEL_OPTIONAL }
    field { name: "paid" number: 9 type: TYPE_BOOL label: LABEL_OPTIONAL }
    field { name: "note" number: 10 type: TYPE_STRING label: LABEL_OPTIONAL proto3_optional: true oneof_index: 1 }
    field { name: "tags" number: 11 type: TYPE_STRING label: LABEL_REPEATED } } }"""  # noqa: E501

Order = dict[str, Any]


def measure(rounds: int) -> dict[str, Any]:
    """Rows per second by format."""
    orders = [order(random.Random(at), at) for at in range(ORDERS)]  # noqa: S311 - data to decode
    made = encoded(orders)
    table = Columns(tuple(Column(name, kind) for name, kind in COLUMNS.items()), (), "UTC")
    runs: dict[str, Callable[[], Any]] = {}
    for name, (form, values) in made.items():
        records, decoder = pa.record_batch([pa.array(values, pa.binary())], names=["value"]), Records(form, table)
        runs[name] = partial(decoder.decode, records)
    decoded = {name: run() for name, run in runs.items()}
    for name, found in decoded.items():
        if found.bad or not found.batch.equals(decoded["json"].batch):
            raise WrongRowsError(f"{name} decodes to other rows than json")
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(rounds):
        for name, run in runs.items():
            began = time.process_time()
            run()
            best[name] = min(best[name], time.process_time() - began)
    return {name: {"rows_per_s": round(ORDERS / took), "of_json": best["json"] / took} for name, took in best.items()}


def lines(figures: dict[str, Any]) -> list[str]:
    """For people."""
    said = ["decoding, rows per second of CPU time:"]
    for name, figure in figures.items():
        met = "met" if figure["of_json"] >= GOALS.get(name, 0) else "MISSED"
        goal = f", goal {GOALS[name]}: {met}" if name in GOALS else ""
        said.append(f"  {name:9} {figure['rows_per_s']:>10,}   {figure['of_json']:.2f} of json{goal}")
    return said


def encoded(orders: list[Order]) -> dict[str, tuple[FormatSettings, list[bytes]]]:
    """The values of the same orders, by format."""
    return {"json": _json(orders), "avro": _avro(orders), "protobuf": _protobuf(orders)}


def settings_of(form: FormatSettings, folder: Path) -> dict[str, str]:
    """The format's options in a job file.  Its schema is written into the folder."""
    if isinstance(form, Avro | Protobuf):
        assert form.schema_file is not None, "no registry is asked"
        path = folder / form.schema_file.path
        path.write_bytes(form.schema_file.content)
        return {
            "type": form.type,
            "schema_file": str(path),
            **({"message": "Order"} if form.type == "protobuf" else {}),
        }
    return {}


def order(chance: random.Random, at: int) -> Order:
    """One of them."""
    return {
        "id": at * 7919,
        "customer": f"customer-{chance.randrange(10**6)}",
        "country": chance.choice([None, "DE", "FR"]),
        "status": chance.choice(["new", "paid", "sent"]),
        "amount": Decimal(chance.randrange(10**8)).scaleb(-2),
        "quantity": chance.randrange(100),
        "weight": chance.random(),
        "created": datetime.fromtimestamp(1_700_000_000 + chance.randrange(10**7), UTC),
        "paid": chance.random() < 0.5,
        "note": chance.choice([None, "a somewhat longer note about the order"]),
        "tags": [chance.choice("abcdef") * 3 for _ in range(chance.randrange(4))],
    }


def _json(orders: list[Order]) -> tuple[FormatSettings, list[bytes]]:
    def text(order: Order) -> bytes:
        return json.dumps({**order, "amount": str(order["amount"]), "created": order["created"].isoformat()}).encode()

    return JSON, [text(order) for order in orders]


def _avro(orders: list[Order]) -> tuple[FormatSettings, list[bytes]]:
    schema = {"type": "record", "name": "Order", "fields": [{"name": n, "type": kind} for n, kind in AVRO.items()]}
    form = Avro(type="avro", schema_file=TextFile("orders.avsc", json.dumps(schema).encode()))
    parsed, values = fastavro.parse_schema(schema), []
    for order in orders:
        buffer = io.BytesIO()
        fastavro.schemaless_writer(buffer, parsed, order)
        values.append(buffer.getvalue())
    return form, values


def _protobuf(orders: list[Order]) -> tuple[FormatSettings, list[bytes]]:
    files = text_format.Parse(PROTO, descriptor_pb2.FileDescriptorSet())
    form = Protobuf(type="protobuf", schema_file=TextFile("orders.desc", files.SerializeToString()), message="Order")
    kind, values = message_factory.GetMessages(files.file)["Order"], []
    for order in orders:
        given = {name: value for name, value in order.items() if value is not None}
        given |= {"amount": str(order["amount"]), "created": {"seconds": int(order["created"].timestamp())}}
        values.append(kind(**given).SerializeToString())
    return form, values


def main() -> None:
    """Measure decoding alone, which needs no services."""
    print("\n".join(lines(measure(7))))


if __name__ == "__main__":
    main()
