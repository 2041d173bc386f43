"""``chsink doctor``: connect, and say everything that would stop the job or surprise its owner."""

from __future__ import annotations

import platform
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Annotated

import typer

from chsink.as_typed import as_typed
from chsink.cli.options import DEFAULT_CONFIG, ConfigOption, SetOption, load_config
from chsink.cli.output import JsonOption, print_json, progress
from chsink.config import Config

if TYPE_CHECKING:
    from chsink.findings import Finding
    from chsink.kafka.admin import KafkaAdmin


def doctor(  # noqa: PLR0917 - options of a command
    config: ConfigOption = DEFAULT_CONFIG,
    assignments: SetOption = None,
    sample: Annotated[
        int | None,
        typer.Option(
            help="Also decode the first and last N records of every partition, without landing any.",
            metavar="N",
            min=1,
            max=1_000_000,
        ),
    ] = None,
    system: Annotated[
        bool, typer.Option("--system", help="Check this machine only. It needs neither a job file nor a service.")
    ] = False,
    problems: Annotated[bool, typer.Option("--problems", help="Print only errors and warnings.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Check the services, tables, grants and state that a job needs.

    It writes only to the state table: it creates the table if it is missing, and keeps one test row per sink in it.

    \b
    chsink doctor -c job.toml
    chsink doctor -c job.toml --sample 1000
    chsink doctor --system                           Java, jars, disk, clock, limits, memory
    chsink doctor -c job.toml --problems
    chsink doctor -c job.toml --problems --json | jq -r '.findings[].sentence'

    --sample is a dry run: it reads records from Kafka and decodes them as the job would. It reports which columns
    refuse records and why (also those of Iceberg tables), which fields have no column, and how many rows each shard
    would get. It lands nothing, and commits no offsets in Kafka.

    Findings that differ only in a table, topic or server are printed as one. --json lists every finding by itself.

    The checks run at every start too: errors stop it, warnings are logged. docs/errors.md explains each id.

    Exit codes: 0 no errors (there may be warnings), 1 a check failed, 2 the job file is wrong.
    """  # noqa: D301 - a backspace keeps the lines of a paragraph apart
    if system:
        if sample is not None:
            raise typer.BadParameter("--system asks no service, so it takes no --sample")
        there = config != DEFAULT_CONFIG or config.exists()
        findings = _examine_machine(load_config(config, assignments) if there else None)
        of = {"machine": platform.node()}
    else:
        checked = load_config(config, assignments)
        findings, of = _examine(checked, sample), {"sink": checked.sink.name}
    if _reported(findings, of, problems=problems, as_json=as_json):
        raise typer.Exit(1)


def _reported(findings: Iterable[Finding], of: dict[str, str], *, problems: bool, as_json: bool) -> int:
    """Print the findings; ``of`` says what was examined.  Returns the number of errors."""
    from chsink.doctor.alike import PROBLEMS
    from chsink.findings import Severity

    found: dict[Finding, None] = {}
    try:
        for finding in findings:
            found.setdefault(finding)
            progress(f"checking: {len(found)} findings so far")
    finally:
        progress("")
        shown = [f for f in found if not problems or f.severity in PROBLEMS]
        if not as_json:
            print_findings(shown)
    counts = {str(s): sum(f.severity is s for f in found) for s in Severity}
    if as_json:
        print_json({**of, **counts, "findings": [f.as_dict() for f in shown]})
    else:
        what = " ".join(word for pair in of.items() for word in pair)
        typer.echo(f"{what}: " + ", ".join(_counted(n, name) for name, n in counts.items()))
    return counts["error"]


def _counted(number: int, severity: str) -> str:
    several = number != 1 and severity in {"error", "warning"}
    return f"{number} {severity}{'s' if several else ''}"


def _examine_machine(config: Config | None) -> Iterator[Finding]:
    """Besides what every job needs: the folders of this one, and how many tasks it runs at a time on this machine."""
    from chsink.findings import guarded
    from chsink.machine import machine_findings
    from chsink.spark.checkpoint import local_folder
    from chsink.spark.checks import java_findings
    from chsink.versions import package_findings

    yield from package_findings([] if config is None else _extras(config))
    yield from guarded("Java", java_findings)
    folders, tasks = {}, None
    if config is not None:
        checkpoint, conf = config.sink.checkpoint, config.spark.conf
        here = None if checkpoint is None else local_folder(checkpoint, conf)
        folders = {} if here is None else {"the checkpoint": str(here.path)}
        given = re.fullmatch(r"local\[(\d+)\]", config.spark.master or "")
        tasks = int(given[1]) if given else None
    yield from machine_findings(folders, tasks)


def _extras(config: Config) -> set[str]:
    """Those of chsink's extras that the job needs; a format without packages of its own has none."""
    used = {"mirror": config.mirror.enabled, "ui": config.observe.ui is not None}
    return {name for name, wanted in used.items() if wanted} | {each.type.replace("_", "-") for each in config.formats}


def _examine(config: Config, sample: int | None) -> Iterator[Finding]:
    from chsink.checks import all_findings, mirror_findings
    from chsink.clock import SystemClock
    from chsink.connect import connected
    from chsink.findings import guarded
    from chsink.kafka.admin import open_admin
    from chsink.observe.logs import configure
    from chsink.sample import sample_findings
    from chsink.spark.checks import configured_checkpoint_findings, java_findings
    from chsink.versions import package_findings

    configure(config.observe.log_format, "error")
    yield from package_findings(_extras(config))
    yield from guarded("Java", java_findings)
    count = sample or 0
    if config.clickhouse_section is None:
        kafka = open_admin(config)
        findings = mirror_findings(config, kafka, SystemClock())
        samples = [partial(_samples_of_mirror, config, kafka, count)]
        yield from _with_samples(findings, [] if sample is None else samples)
        return
    with connected(config) as services:
        kafka = services.kafka
        of_mirror = mirror_findings(services.config, kafka, services.clock)
        findings = chain(all_findings(services), of_mirror, configured_checkpoint_findings(services))
        samples = [partial(sample_findings, services.clickhouse, kafka, count, _progress)]
        if config.mirror.enabled:
            samples.append(partial(_samples_of_mirror, config, kafka, count))
        yield from _with_samples(findings, [] if sample is None else samples)


def _samples_of_mirror(config: Config, kafka: KafkaAdmin, count: int) -> Iterator[Finding]:
    """Tables of the mirror that could not be created, and records that would not fit its tables."""
    from chsink.mirror.package import check_installed

    check_installed()
    from chsink.mirror.opening import open_mirror  # needs the packages
    from chsink.sample import mirror_sample_findings
    from chsink.tables.iceberg import new_tables

    mirror = open_mirror(config, kafka)
    planned = yield from new_tables(mirror, kafka)
    yield from mirror_sample_findings(mirror, planned, kafka, count, _progress)


def _with_samples(findings: Iterable[Finding], samples: Iterable[Callable[[], Iterator[Finding]]]) -> Iterator[Finding]:
    """The findings, then those of the samples if all services answer: these would only fail for the same reason."""
    from chsink.errors.preflight import LOGIN_REFUSED
    from chsink.errors.services import CLICKHOUSE_UNAVAILABLE
    from chsink.findings import Severity, guarded
    from chsink.kafka.refusals import NO_ANSWER

    no_answer = NO_ANSWER | {LOGIN_REFUSED.id, CLICKHOUSE_UNAVAILABLE.id}
    away = False
    for finding in findings:
        away |= finding.id in no_answer and finding.severity is Severity.ERROR
        yield finding
    for sample in [] if away else samples:
        yield from guarded("the sample", sample)


def _progress(topic: str, done: int, total: int) -> None:
    """One line on a terminal, rewritten as partitions are done."""
    progress(f"sampling {topic}: {done} of {total} partitions" if done < total else "")


def print_findings(found: Iterable[Finding]) -> None:
    """Print findings; those that are alike as one."""
    from chsink.doctor.alike import alike

    for each in alike(found):
        colour = {"error": "red", "warning": "yellow", "ok": "green"}.get(str(each.severity), "cyan")
        head = typer.style(f"{each.severity:<7}", fg=colour, bold=each.severity == "error")
        for sentence in each.sentences:
            typer.echo(f"{head} {each.id}  {sentence}")
        if each.more:
            typer.echo(f"        and {each.more} more like this (--json lists all)")
        if each.fix:
            typer.echo(f"        fix: {as_typed(each.fix)}")
