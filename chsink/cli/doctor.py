"""``chsink doctor``: connect, and say everything that would stop the job or surprise its owner."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Annotated

import typer

from chsink.cli.options import DEFAULT_CONFIG, ConfigOption, SetOption, load_config
from chsink.cli.output import JsonOption, print_json, progress
from chsink.config import Config

if TYPE_CHECKING:
    from chsink.findings import Finding


def doctor(
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
    problems: Annotated[bool, typer.Option("--problems", help="Print only errors and warnings.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Check the services, tables, grants and state that a job needs.

    It writes only to the state table: it creates the table if it is missing, and keeps one test row per sink in it.

    \b
    chsink doctor -c job.toml
    chsink doctor -c job.toml --sample 1000
    chsink doctor -c job.toml --problems
    chsink doctor -c job.toml --problems --json | jq -r '.findings[].sentence'

    --sample is a dry run: it reads records from Kafka and decodes them as the job would. It reports which columns
    refuse records and why, also for the Iceberg tables of the mirror, fields without a column, and how many rows each
    shard would get. It lands nothing, and commits no offsets in Kafka.

    Findings that differ only in a table, topic or server are printed as one. --json lists every finding by itself.

    The checks run at every start too: errors stop it, warnings are logged. docs/errors.md explains each id.

    Exit codes: 0 no errors (there may be warnings), 1 a check failed, 2 the job file is wrong.
    """  # noqa: D301 - a backspace keeps the lines of a paragraph apart
    if _reported(load_config(config, assignments), sample, problems=problems, as_json=as_json):
        raise typer.Exit(1)


def _reported(config: Config, sample: int | None, *, problems: bool, as_json: bool) -> int:
    """Print the findings; returns the number of errors."""
    from chsink.doctor.alike import PROBLEMS
    from chsink.findings import Severity

    found: dict[Finding, None] = {}
    try:
        for finding in _examine(config, sample):
            found.setdefault(finding)
            progress(f"checking: {len(found)} findings so far")
    finally:
        progress("")
        shown = [f for f in found if not problems or f.severity in PROBLEMS]
        if not as_json:
            print_findings(shown)
    counts = {str(s): sum(f.severity is s for f in found) for s in Severity}
    if as_json:
        print_json({"sink": config.sink.name, **counts, "findings": [f.as_dict() for f in shown]})
    else:
        typer.echo(f"sink {config.sink.name}: " + ", ".join(_counted(n, name) for name, n in counts.items()))
    return counts["error"]


def _counted(number: int, severity: str) -> str:
    several = number != 1 and severity in {"error", "warning"}
    return f"{number} {severity}{'s' if several else ''}"


def _examine(config: Config, sample: int | None) -> Iterator[Finding]:
    from chsink.checks import all_findings, mirror_findings
    from chsink.clock import SystemClock
    from chsink.connect import connected
    from chsink.findings import guarded
    from chsink.kafka.admin import open_admin
    from chsink.observe.logs import configure
    from chsink.sample import mirror_sample_findings, sample_findings
    from chsink.spark.checks import configured_checkpoint_findings, java_findings
    from chsink.versions import package_findings

    configure(config.observe.log_format, "error")
    yield from guarded("Java", java_findings)
    count = sample or 0
    if config.clickhouse_section is None:
        kafka = open_admin(config)
        findings = chain(package_findings(), mirror_findings(config, kafka, SystemClock()))
        samples = [lambda: mirror_sample_findings(config, kafka, count, _progress)]
        yield from _with_samples(findings, [] if sample is None else samples)
        return
    with connected(config) as services:
        kafka = services.kafka
        of_mirror = mirror_findings(services.config, kafka, services.clock)
        findings = chain(all_findings(services), of_mirror, configured_checkpoint_findings(services))
        samples = [lambda: sample_findings(services.clickhouse, kafka, count, _progress)]
        if config.mirror.enabled:
            samples.append(lambda: mirror_sample_findings(config, kafka, count, _progress))
        yield from _with_samples(findings, [] if sample is None else samples)


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
            typer.echo(f"        fix: {each.fix}")
