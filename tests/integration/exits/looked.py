"""What ``chsink doctor`` or another command says of an entry of the catalogue, before and after somebody did it."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import Formatter

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from typer.testing import CliRunner, Result

from chsink.cli.main import app
from chsink.errors.catalogue import CATALOGUE
from tests.integration.exits.commands import settings_of
from tests.support.job import Job

Finding = Mapping[str, str]


def is_said(entry: str, text: str, fix: str) -> bool:
    """Whether the text has the entry's sentence, and the fix begins as the entry's does."""
    parts = Formatter().parse(CATALOGUE[entry].sentence)
    pattern = "".join(re.escape(words) + (".*" if field is not None else "") for words, field, _, _ in parts)
    begins = re.split("[`{]", CATALOGUE[entry].hint)[0]
    return re.search(pattern, " ".join(text.split())) is not None and " ".join(fix.split()).startswith(begins)


@dataclass(frozen=True, slots=True)
class Looked:
    """What ``chsink doctor`` found."""

    findings: Sequence[Finding]

    def of(self, entry: str) -> list[Finding]:
        """The findings of this entry."""
        return [f for f in self.findings if f["id"] == CATALOGUE[entry].id and is_said(entry, f["sentence"], f["fix"])]

    def fix(self, entry: str) -> str:
        """What they tell to do, the same in all of them."""
        fixes = {finding["fix"] for finding in self.of(entry)}
        assert len(fixes) == 1, (entry, [(f["id"], f["sentence"]) for f in self.findings])
        return fixes.pop()

    @property
    def wrong(self) -> Counter[str]:
        """The ids of errors and warnings."""
        return Counter(f["id"] for f in self.findings if f["severity"] in {"error", "warning"})


def looked(result: Result) -> Looked:
    """What ``chsink doctor --json`` printed."""
    assert result.exit_code in (0, 1), result.output
    return Looked(json.loads(result.stdout)["findings"])


def cli(job: Job, *words: str) -> Result:
    """A command with the job's file, which a message may name, and its settings."""
    file = str(job.file())
    return CliRunner().invoke(app, [*words, *(() if "-c" in words else ("-c", file)), *settings_of(job)])


def look(job: Job) -> Looked:
    """What ``chsink doctor`` says now."""
    return looked(cli(job, "doctor", "--json"))


def leads_on(entry: str, before: Looked, job: Job, *, then: Sequence[str] = ()) -> None:
    """``chsink doctor`` no longer says it, and nothing else is wrong that was not before but ``then``, by ids."""
    after = look(job)
    assert not after.of(entry), after.of(entry)
    assert after.wrong <= before.wrong + Counter(then), [
        f for f in after.findings if f["severity"] in {"error", "warning"}
    ]


def refused(entry: str, result: Result) -> Result:
    """A command that ended with this entry."""
    assert result.exit_code == CATALOGUE[entry].family.exit_code, result.output
    parts = result.output.split(f"error {CATALOGUE[entry].id} ")[1:]
    assert any(is_said(entry, part, part.partition("fix: ")[2]) for part in parts), result.output
    return result


def done(result: Result) -> str:
    """What a command printed that went well."""
    assert result.exit_code == 0, result.output
    return result.output


def configure(bootstrap: str, topic: str, settings: Mapping[str, str]) -> None:
    """What ``kafka-configs.sh --alter`` does."""
    entries = [ConfigEntry(n, v, incremental_operation=AlterConfigOpType.SET) for n, v in settings.items()]
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": bootstrap})  # it must outlive the answers
    [changed] = admin.incremental_alter_configs([resource]).values()
    changed.result(20)
