"""What messages of the mirror tell a person to do, and doing it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from pyiceberg.schema import Schema
from typer.testing import CliRunner, Result

from chsink.cli.main import app
from chsink.mirror.control import Names
from chsink.statemachine.ranges import TopicPartition
from tests.integration.mirror.bench import SCHEMA, Bench
from tests.support.told import Said, group_commands_of, says, words_of


def run(bench: Bench, words: Sequence[str], job: Path | None = None) -> Result:
    """``chsink …`` with the bench's job file, or with another one.  What it asks is answered with yes."""
    return CliRunner().invoke(app, [*words, "-c", str(job or bench.job_file())], input="y\n")


def follow(bench: Bench, said: Said, *wanted: str, more: Sequence[str] = (), job: Path | None = None) -> Result:
    """Run the command that the message names; ``more`` are words that it leaves to the person."""
    done = run(bench, [*words_of(said, *wanted), *more], job)
    assert done.exit_code == 0, done.output
    return done


def name_an_empty_table(bench: Bench, said: Said, schema: Schema = SCHEMA) -> None:
    """Do what the message says to land everything that Kafka holds, in the table ``shop.anew``."""
    says(said, "empty table", "[[mirror.route]]", "its name and --reread")
    bench.catalog().create_table("shop.anew", schema)
    bench.tables = ("anew",)
    follow(bench, said, "--reread", more=["shop.anew"])


def fix_of_finding(bench: Bench, id_: str) -> str:
    """What ``chsink doctor`` tells to do about its first finding of this id."""
    found = json.loads(run(bench, ["doctor", "--json"]).stdout)["findings"]
    return str(next(one["fix"] for one in found if one["id"] == id_))


def set_offset(names: Names, group: str, tp: TopicPartition, offset: int) -> None:
    """Let a group without members be there."""
    with names.sender("by hand", group) as sender:
        sender.send("x", [], {tp: offset})


def reset_groups(bench: Bench, names: Names, said: Said) -> None:
    """Do what each ``kafka-consumer-groups.sh`` of the message does; ``names`` are those of the groups' owner."""
    for given in group_commands_of(said):
        assert {"bootstrap-server", "reset-offsets", "execute"} < given.keys(), given
        topic, _, number = given["topic"].partition(":")
        every = bench.admin.partitions([topic])
        tps = [tp for tp in every if tp.partition == int(number)] if number else every
        ends = {"to-earliest": bench.admin.log_starts(tps), "to-latest": bench.admin.log_ends(tps)}
        [to] = given.keys() & {"to-offset", *ends}
        for tp in tps:
            set_offset(names, given["group"], tp, ends[to][tp] if to in ends else int(given[to]))
