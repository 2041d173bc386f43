"""A person who does what messages say, and knows nothing else.

Rules:
- The words come from the messages alone: commands, options, statements, settings.  A statement ends at a semicolon.
- Of several verdicts, the person takes the first one whose condition holds, after a look at the table.
- A refusal of a command is a message, too: whatever it says is done, then the command is run again.
- Nothing is given up: ``--lost`` and ``--accept-holes`` are never taken.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field
from typing import Final

from pyspark.sql import SparkSession

from chsink.errors import ChsinkError
from tests.integration.exits.commands import settings_of
from tests.support.doubt import run
from tests.support.job import Job, command

MOST_STEPS: Final = 8
_STATEMENT: Final = re.compile(r"(?:on (?P<url>http\S+): )?(?P<sql>(?:DELETE FROM|ALTER TABLE) [^;]+)")
_ALTERNATIVE: Final = re.compile(r"; (?:if|or|to) ")
_OPTION: Final = re.compile(r"(?:again with|add) `?(--[a-z-]+)")


@dataclass
class Person:
    """``whole`` are the partitions of whose range in doubt all rows are in the table: what a look at it shows.
    ``met`` are the ids of all messages.
    """

    job: Job
    spark: SparkSession
    whole: frozenset[int] = frozenset()
    met: list[str] = field(default_factory=list)

    def start_until_it_ends(self) -> None:
        """Start the job until it ends well, and do what it says in between."""
        for _ in range(MOST_STEPS):
            try:
                self.job.drain(self.spark)
            except ChsinkError as error:
                for part in error.parts or (error,):
                    self.met.append(part.id)
                    self._obey(part.hint)
            else:
                return
        raise AssertionError(f"it goes in circles: {self.met}")

    def _obey(self, hint: str) -> None:
        """The first command that the message names, and what it says to do behind that."""
        found = re.search(r"`chsink state ((?:resolve|reset|recover)[^`]*)`", hint)
        assert found is not None, hint
        words, offered = shlex.split(found[1]), hint[found.end() :]
        if words[0] == "resolve":
            self._resolve(words[1:], offered)
        else:
            self.insist(words)
        if "Then run ALTER" in offered:
            self._statements(offered.partition("Then run ")[2])
        after = _ALTERNATIVE.split(offered)[0]
        for name, value in re.findall(r'set ([a-z_]+\.[a-z_]+) = "(\w+)"', after):
            self.job.settings = {**self.job.settings, name: value}
        if "start with a new checkpoint" in after:
            self.job.lose_checkpoint()

    def _resolve(self, words: list[str], offered: str) -> None:
        """A verdict for each partition that the command names; for all in doubt, where it leaves that to the person."""
        partitions = [int(word) for word in words if word.isdecimal()] or sorted(self.job.in_doubt())
        verdicts = [word for word in words if word.startswith("--")] + re.findall(r"--(?:landed|resend)", offered)
        for partition in partitions:
            verdict = "--landed" if "--landed" in verdicts and partition in self.whole else "--resend"
            assert verdict in verdicts, (verdicts, offered)
            self.insist(["resolve", self.job.topic, str(partition), verdict])

    def insist(self, words: list[str]) -> None:
        """Run the command, and do what its refusals say."""
        for _ in range(MOST_STEPS):
            result = run(self.job, *words, "--yes", *settings_of(self.job))
            if result.exit_code == 0:
                return
            assert result.exit_code == 2, result.output
            said = " ".join(result.stderr.split())
            self.met += re.findall(r"error (CHS-\d+)", said)
            before = list(words)
            for fix in said.split("fix: ")[1:]:
                first_choice = fix.partition("; only if ")[0]
                self._statements(first_choice)
                words += [option for option in _OPTION.findall(first_choice) if option not in words]
            assert words != before or "DELETE FROM" in said, said
        raise AssertionError(f"{words} goes in circles: {self.met}")

    def _statements(self, said: str) -> None:
        for found in _STATEMENT.finditer(said):
            waits = " SETTINGS lightweight_deletes_sync = 2" if found["sql"].startswith("DELETE") else ""
            for url in [found["url"]] if found["url"] else self.job.shards:
                command(url, found["sql"] + waits)
