"""``chsink init --from-topic``: from a topic to a job file and a table; and each refusal, with what its fix says."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from typer.testing import CliRunner, Result

from chsink.cli.main import app
from chsink.config import load
from chsink.embedded.base.owned import OwnedProcess
from chsink.embedded.clickhouse import EmbeddedClickHouse
from chsink.embedded.dev import DevService, DevStack
from chsink.embedded.kafka import EmbeddedKafka
from tests.conftest import MakeTopic
from tests.support.job import command, select
from tests.support.kafka import produce
from tests.support.registry import RegistryService
from tests.support.told import left_out, option_of, says, words_of

SCHEMA = '{"type":"record","name":"O","fields":[{"name":"id","type":"long"},{"name":"city","type":["null","string"]},'
SCHEMA += '{"name":"u","type":["long","string"]}]}'
Init = Callable[..., Result]


@pytest.fixture
def init(
    tmp_path: Path, kafka: EmbeddedKafka, clickhouse: list[EmbeddedClickHouse], monkeypatch: pytest.MonkeyPatch
) -> Init:
    """The command in a folder of its own, with the addresses of the services."""
    monkeypatch.chdir(tmp_path)
    given = ["--bootstrap", kafka.bootstrap, "--endpoint", clickhouse[0].url]

    def run(topic: str, *more: str) -> Result:
        return CliRunner().invoke(app, ["init", "--from-topic", topic, *given, *more])

    return run


@pytest.fixture
def url(clickhouse: list[EmbeddedClickHouse]) -> str:
    return clickhouse[0].url


@pytest.fixture
def table(url: str) -> str:
    """A name in a database of its own, which exists."""
    name = f"d{uuid.uuid4().hex[:10]}"
    command(url, f"CREATE DATABASE {name}")
    return f"{name}.orders"


def types(url: str, table: str) -> dict[str, str]:
    database, name = table.split(".")
    where = f"database = '{database}' AND table = '{name}' AND name NOT LIKE '\\_kafka%'"
    found = select(url, f"SELECT name, type FROM system.columns WHERE {where} FORMAT JSONCompactEachRow")
    return dict(json.loads(line) for line in found.splitlines())


def done(result: Result) -> str:
    assert result.exit_code == 0, result.output
    return result.output


def refused(result: Result, *said: str) -> Result:
    assert result.exit_code == 2, result.output
    for words in said:
        assert words in " ".join(result.output.split())
    return result


def test_messy_json(init: Init, kafka: EmbeddedKafka, topic: MakeTopic, table: str, url: str, tmp_path: Path) -> None:
    name = topic(partitions=2)
    good = [{"id": n, "city": None if n % 3 else "Köln", "tags": ["a"], "total": n / 4} for n in range(40)]
    produce(kafka.bootstrap, name, 0, [*good, None, "oops"])
    produce(kafka.bootstrap, name, 1, [{"id": 41, "later": True}])

    said = done(init(name, "--table", table, "--apply"))

    assert "41 of 42 sampled values" in said and "JSON objects" in said
    assert "1 of 43 sampled records do not fit" in said and "partition 0 offset 41" in said
    assert "Köln" not in said, "values are not shown"
    assert types(url, table) == {
        "id": "Nullable(Int64)",
        "city": "Nullable(String)",
        "tags": "Array(Nullable(String))",
        "total": "Nullable(Float64)",
        "later": "Nullable(Bool)",
    }
    config = load("job.toml", environ={})
    assert (config.routes[0].topic, config.routes[0].table, config.sink.name) == (name, table, table)
    assert (tmp_path / f"{table}.sql").read_text().startswith("CREATE TABLE")
    sampled = CliRunner().invoke(app, ["doctor", "--sample", "100", "--json"])
    sentences = [f["sentence"] for f in json.loads(sampled.output)["findings"] if f["id"] == "CHS-507"]
    assert len(sentences) == 2 and all(sentence in said for sentence in sentences)


def test_a_second_job_on_a_topic_is_another_sink(init: Init, kafka: EmbeddedKafka, topic: MakeTopic) -> None:
    """Its own table is what it is made for; with the first one's name and checkpoint, either would fence the other."""
    name = topic(partitions=1)
    produce(kafka.bootstrap, name, 0, [{"id": 1}])
    done(init(name))
    done(init(name, "other.toml", "--table", "`my-db`.`its copy`"))

    first, second = (load(file, environ={}).sink for file in ("job.toml", "other.toml"))
    assert (first.name, second.name) == (name, "my-db.its_copy")
    assert first.checkpoint != second.checkpoint


def test_a_few_values_make_a_column_text(init: Init, kafka: EmbeddedKafka, topic: MakeTopic, table: str) -> None:
    name = topic(partitions=2)
    produce(kafka.bootstrap, name, 0, [{"id": n, "total": n / 4} for n in range(40)])
    produce(kafka.bootstrap, name, 1, [{"id": 40, "total": 1}, {"id": 41, "total": "secret"}])

    told = json.loads(done(init(name, "--table", table, "--json")))

    [said] = [finding for finding in told["findings"] if "CHS-512" in finding]
    assert "column total" in said and "1 of the 42 sampled values do not fit Nullable(Float64)" in said
    assert f"{name}-1@1" in said and "secret" not in said


def test_what_became_of_nested_fields(init: Init, kafka: EmbeddedKafka, topic: MakeTopic, table: str, url: str) -> None:
    """⚑ It said nothing of them.  The types that it names take all sampled records."""
    name = topic()
    lines = [{"sku": "secret", "price": 1.5}, {"sku": "b", "more": [1]}]
    records = [{"id": 1, "address": {"zip": "secret", "at": {"x": 1}}, "lines": lines, "nothing": None, "a.b": 1}]
    produce(kafka.bootstrap, name, 0, [*records, {"id": 2, "address": {"zip": None}, "lines": [], "odd": {"a.b": 1}}])

    told = json.loads(done(init(name, "--table", table, "--json", "--apply")))

    address, lines_, nothing, dotted, odd, rounds = told["notes"]
    point = "Tuple(`zip` Nullable(String), `at` Tuple(`x` Nullable(Int64)))"
    assert f"column address holds objects as their JSON text. To query their members, declare it as {point}" in address
    assert "(does not fit 1 of 2 sampled records)" in address, "its tuple inside is missing in the second"
    items = "Array(Tuple(`sku` Nullable(String), `price` Nullable(Float64), `more` Array(Nullable(Int64)))) DEFAULT []"
    assert f"declare it as {items} (does not fit 1 of 2 sampled records)" in lines_
    assert "'nothing' is left out, because the sample does not tell its type: nulls" in nothing
    assert "a Float64 rounds to about 16 digits (lines)" in rounds
    assert "'a.b' is left out, because chsink makes no column of this name" in dotted
    assert "declare it as Map(String, Nullable(String)) (does not fit 1 of 2 sampled records)" in odd, (
        "the first lacks it"
    )
    assert "secret" not in json.dumps(told)
    assert types(url, table).keys() == {"id", "address", "lines", "odd"}


def test_changes_with_deletes(init: Init, kafka: EmbeddedKafka, topic: MakeTopic, table: str, url: str) -> None:
    """⚑ The job that it wrote halted at the first delete, and then at the first tombstone."""
    name = topic()
    row = {"id": 1, "price": "MDk=", "tags": ["a"], "n": 5}
    about = {"source": {"lsn": 1}}
    changes = [{"before": None, "after": row, "op": "c", **about}, {"before": row, "after": None, "op": "d", **about}]
    few = {"before": {"id": 1, "n": "6"}, "after": None, "op": "d", **about}
    produce(kafka.bootstrap, name, 0, [*changes, few, None])

    told = json.loads(done(init(name, "--table", table, "--json", "--apply")))

    fits, quoted = told["findings"]
    assert "CHS-507" in fits and "all 4 sampled records fit" in fits
    assert "CHS-512" in quoted and "1 of the 3 sampled values are numbers in quotes" in quoted
    assert "with __deleted = 1 for a delete" in told["notes"][0] and "decimals are base64 text" in told["notes"][0]
    assert types(url, table)["__deleted"] == "UInt8"
    sampled = CliRunner().invoke(app, ["doctor", "--sample", "100", "--json"])
    [again] = [f for f in json.loads(sampled.output)["findings"] if f["id"] == "CHS-507"]
    assert again["severity"] == "ok"


def test_for_programs(init: Init, kafka: EmbeddedKafka, topic: MakeTopic, table: str, url: str) -> None:
    name = topic()
    produce(kafka.bootstrap, name, 0, [f"{n};x" for n in range(5)])

    told = json.loads(done(init(name, "--table", table, "--json")))

    assert told["format"] == {"type": "csv", "delimiter": ";", "columns": ["field_1", "field_2"]}
    assert (told["records"], told["matching"], told["created"], told["urls"]) == (5, 5, False, [url])
    assert types(url, table) == {}
    command(url, told["sql"])
    assert types(url, table) == {"field_1": "Nullable(String)", "field_2": "Nullable(String)"}


@pytest.mark.exit_of("REGISTRY_NOT_NAMED")
@pytest.mark.exit_of("SCHEMA_NOT_REGISTERED")
def test_registered_schemas(init: Init, kafka: EmbeddedKafka, topic: MakeTopic, table: str, url: str) -> None:
    name = topic()
    with RegistryService() as registry:
        serialize = AvroSerializer(SchemaRegistryClient({"url": registry.url}), SCHEMA)
        context = SerializationContext(name, MessageField.VALUE)
        produce(kafka.bootstrap, name, 0, [serialize({"id": n, "city": None, "u": n}, context) for n in range(3)])

        unnamed = refused(init(name, "--table", table), "CHS-297", "begin with ids of registered schemas")
        with RegistryService() as another:
            words = ("--table", table, option_of(unnamed, "--registry"))
            unknown = refused(init(name, *words, another.url), "CHS-297", another.url, "does not have")
        said = done(init(name, "--table", table, option_of(unknown, "--registry"), registry.url, "--apply"))

        assert "3 of 3 sampled values" in said and "Avro with a registered schema" in said
        assert types(url, table) == {"id": "Nullable(Int64)", "city": "Nullable(String)"}
        assert "field 'u' is left out, because chsink chooses no column for its type in the schema (a record" in said
        assert load("job.toml", environ={}).schema_registry.url == (registry.url,)
        plain = topic()
        produce(kafka.bootstrap, plain, 0, ['{"id": 1}'])
        done(init(plain, "plain.toml", "--table", f"{table}1", "--registry", registry.url))
        assert load("plain.toml", environ={}).schema_registry.url == ()  # nothing in it needs a registry


@pytest.mark.exit_of("NO_RECORD_TO_GUESS_FROM")
@pytest.mark.exit_of("NOTHING_TO_GUESS_FROM")
def test_a_topic_without_a_value(init: Init, kafka: EmbeddedKafka, topic: MakeTopic, table: str) -> None:
    name = topic()
    empty = refused(init(name, "--table", table), "CHS-296", "holds no record", "retention.ms")
    says(empty, "produce records, then run the command again")
    produce(kafka.bootstrap, name, 0, [None])
    nothing = refused(init(name, "--table", table), "CHS-296")
    says(nothing, "produce a record with a value, then run the command again", "or run `chsink init` without")
    by_hand = words_of(nothing, "init")
    assert "wrote by-hand.toml" in done(CliRunner().invoke(app, [*by_hand, "by-hand.toml"]))

    produce(kafka.bootstrap, name, 0, [{"id": 1}])
    assert "1 of 1 sampled values" in done(init(name, "--table", table))


@pytest.mark.exit_of("TABLE_THERE")
def test_a_table_that_exists(init: Init, kafka: EmbeddedKafka, topic: MakeTopic, table: str, url: str) -> None:
    name = topic()
    produce(kafka.bootstrap, name, 0, [{"id": 1}])
    command(url, f"CREATE TABLE {table} (x UInt8) ENGINE = MergeTree ORDER BY ()")

    words = ["--table", table, "--apply"]
    said = refused(init(name, *words), "CHS-298", f"{table} already exists")
    assert not Path("job.toml").exists()

    printed = json.loads(done(init(name, "compare.toml", *left_out(said, words), "--json")))["sql"]
    assert printed.replace("`", "").startswith(f"CREATE TABLE IF NOT EXISTS {table}")
    done(init(name, option_of(said, "--table"), f"{table}_2", "--apply"))
    assert types(url, f"{table}_2") == {"id": "Nullable(Int64)"}
    assert types(url, table) == {"x": "UInt8"}


def test_a_database_that_does_not_exist(init: Init, kafka: EmbeddedKafka, topic: MakeTopic) -> None:
    name = topic()
    produce(kafka.bootstrap, name, 0, [{"id": 1}])

    refused(init(name, "--table", "nowhere.orders", "--apply"), "CHS-286", "nowhere")


def test_the_table_of_a_development_stack_is_created_as_it_says(
    init: Init, kafka: EmbeddedKafka, clickhouse: list[EmbeddedClickHouse], topic: MakeTopic
) -> None:
    """⚑ It named a file and an address, and no program that runs the one on the other."""
    name, at = topic(), clickhouse[0].url.removeprefix("http://").split(":")
    produce(kafka.bootstrap, name, 0, [{"id": 1}])
    assert "chsink dev sql" not in done(init(name)), "no development stack runs here"
    me = OwnedProcess.of(os.getpid())
    stack = DevStack((DevService("clickhouse-0", at[0], int(at[1]), "log", me),))
    Path(".chsink-dev").mkdir()
    Path(".chsink-dev", "dev.json").write_bytes(msgspec.json.encode(stack))
    Path("job.toml").unlink()
    [file] = Path().glob("*.sql")
    file.unlink()

    assert f"  chsink dev sql < {file}\n" in done(init(name))

    done(CliRunner().invoke(app, ["dev", "sql"], input=file.read_text()))
    assert types(clickhouse[0].url, f"default.{file.stem}") == {"id": "Nullable(Int64)"}


def test_no_topic(init: Init) -> None:
    refused(init("no-such-topic"), "CHS-201", "no topic 'no-such-topic'")


def test_addresses_are_required_where_nobody_can_be_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["init", "--from-topic", "orders"])
    assert result.exit_code == 2 and "--bootstrap" in result.output
