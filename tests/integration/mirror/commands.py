"""What messages of the mirror tell a person to do, and doing it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Formatter

from pyiceberg.schema import Schema
from typer.testing import CliRunner, Result

from chsink.cli.main import app
from chsink.errors.catalogue import CATALOGUE
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


def name_an_empty_table(bench: Bench, said: Said, schema: Schema = SCHEMA, beside: Sequence[str] = ()) -> None:
    """Do what the message says to land everything that Kafka holds, in the table ``shop.anew`` in place of all others
    but ``beside``.
    """
    says(said, "empty table", "[[mirror.route]]", "its name and --reread")
    bench.catalog().create_table("shop.anew", schema)
    bench.tables = (*beside, "anew")
    follow(bench, said, "--reread", more=["shop.anew"])


def fix_of_finding(bench: Bench, id_: str) -> str:
    """What ``chsink doctor`` tells to do about its first finding of this id."""
    found = json.loads(run(bench, ["doctor", "--json"]).stdout)["findings"]
    return str(next(one["fix"] for one in found if one["id"] == id_))


def problems(bench: Bench, *options: str) -> dict[str, str]:
    """The fix of each error and warning of ``chsink doctor``, by the name of its entry."""
    looked = run(bench, ["doctor", "--json", "--problems", *options])
    assert looked.exit_code in {0, 1}, looked.output
    return {_entry_of(one): one["fix"] for one in json.loads(looked.stdout)["findings"]}


def problem(bench: Bench, entry: str, *options: str) -> str:
    """The fix of the only one."""
    found = problems(bench, *options)
    assert found.keys() == {entry}, found
    return found[entry]


def _entry_of(finding: Mapping[str, str]) -> str:
    """The one that says most of it: one sentence may begin as another one."""
    mine = {name: entry.sentence for name, entry in CATALOGUE.items() if entry.id == finding["id"]}
    found = [name for name, said in mine.items() if _pattern(said).fullmatch(finding["sentence"])]
    return max(found, key=lambda name: len(mine[name]))


def _pattern(sentence: str) -> re.Pattern[str]:
    parts = Formatter().parse(sentence)
    return re.compile(
        "".join(re.escape(text) + ("" if name is None else ".+") for text, name, _, _ in parts), re.DOTALL
    )


def start(bench: Bench) -> Result:
    """The mirror starts without Spark, with all its checks; it commits what was handed over, and ends."""
    own = ["--set", "mirror.coordinator=apart", "--set", "trigger.mode=available_now"]
    return run(bench, ["mirror", "coordinator", *own])


def refusal(bench: Bench, entry: str) -> str:
    """The fix with which a start is refused."""
    refused = start(bench)
    said = " ".join(refused.stderr.split())
    assert refused.exit_code == 2, refused.output
    found = re.search(_pattern(f"error {CATALOGUE[entry].id} {CATALOGUE[entry].sentence} fix: ").pattern + "(.+)", said)
    assert found, said
    return found[1]


def lands(bench: Bench) -> None:
    """The mirror goes on, with one record more: each record is in every table once."""
    bench.produce([100])
    coordinator = bench.coordinator()
    for partition in range(bench.partitions):
        bench.hand_over(0, bench.admin.log_ends([bench.tp(partition)])[bench.tp(partition)], partition)
    bench.rounds(coordinator, 3)
    coordinator.close()
    for name in bench.tables:
        assert bench.landed(name, bench.branch) == bench.sent(), name


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
