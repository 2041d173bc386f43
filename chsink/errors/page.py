"""``docs/errors.md`` and the table of halts in ``docs/operations.md``, drawn from the catalogue.

``python -m chsink.errors.page docs`` (``make docs``) writes both; a test fails when they differ from the catalogue.
A parameter of a sentence is shown by its name: in italics, or as ``<name>`` inside code.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from string import Formatter
from types import ModuleType

from chsink.errors.catalogue import CATALOGUE, SECTIONS
from chsink.errors.entry import Entry
from chsink.errors.families import HaltError

_HEAD = """# Errors and findings

Drawn from the catalogue in `chsink/errors/` by `python -m chsink.errors.page`; a test fails when they differ.

Every error has an id, a sentence and a fix. So does every finding of `chsink doctor`: the same id stands for the
check, whether it passed (`ok`) or found something (`error`, `warning`, `info`). At a start, errors stop the job and
warnings are logged. *Words in italics*, and `<words>` inside code, stand for what the message fills in. Several
sentences may share an id. No message contains a record's value or a credential.

| exit code | family | what a supervisor should do |
| --- | --- | --- |
| 0 | done | nothing |
| 1 | a check failed (`doctor`, `verify`) | read the findings |
| 2 | configuration or preflight | fix the job file or the service first; restarting alone changes nothing |
| 3 | halted | wait for a person: continuing could lose or duplicate a record |
| 4 | fenced | do not restart: a newer driver owns the sink |
| 5 | unavailable | restart: nothing is lost |
"""
_TABLE = "| id | what happened | what to do |\n| --- | --- | --- |\n"
_BEGIN = "<!-- halts: drawn by python -m chsink.errors.page -->\n"
_END = "<!-- end of halts -->\n"
_WORD = re.compile(r"(?!chsink\b|pyspark\b)[a-z]+(?=[ ,:;.]*(?:\s(?!=)|$))")
"""The first word, unless it is a name of code."""
_ARGUMENTS = {"arguments": "TOPIC PARTITION"}
_SEE_RUNBOOK = "\nWhat to do about each halt is in the [runbook](operations.md#when-it-halts).\n"


def text(template: str) -> str:
    """A template of the catalogue as a sentence of Markdown, fit for a table's cell."""
    shown, in_code = "", False
    for literal, name, _, _ in Formatter().parse(template):
        shown += literal
        in_code ^= literal.count("`") % 2 == 1
        if name:
            shown += _ARGUMENTS.get(name) or (f"<{name}>" if in_code else f"*{name.replace('_', ' ')}*")
    if re.fullmatch(r"(\{\w+\})+", template):
        return "See the message."
    shown = re.sub(r"\s*\n\s*", " ", shown.strip()).replace("|", "\\|")
    if _WORD.match(shown):
        shown = shown[0].upper() + shown[1:]
    return shown + ("" if not shown or shown.endswith((".", "!", "?")) else ".")


def row(entry: Entry) -> str:
    """One line of the reference: id, sentence, fix."""
    return f"| {entry.id} | {text(entry.sentence)} | {text(entry.hint)} |"


def halt_row(entry: Entry) -> str:
    """One line of the runbook: the fix is followed by what only the runbook adds."""
    todo = " ".join(filter(None, (text(entry.hint), text(entry.runbook))))
    return f"| {entry.id} | {text(entry.sentence)} | {todo} |"


def errors_page() -> str:
    """``docs/errors.md``, whole."""
    page = _HEAD
    for section in SECTIONS:
        title = (section.__doc__ or "").strip().rstrip(".").replace("``", "`")
        more = _SEE_RUNBOOK if title.startswith("3xx") else ""
        page += f"\n## {title}\n{more}\n{_TABLE}{_rows(_of(section), row)}"
    return page


def operations_page(present: str) -> str:
    """``docs/operations.md`` with its table of halts drawn."""
    before, _, rest = present.partition(_BEGIN)
    after = rest.partition(_END)[2]
    halts = [entry for entry in CATALOGUE.values() if issubclass(entry.family, HaltError)]
    return f"{before}{_BEGIN}\n{_TABLE}{_rows(halts, halt_row)}\n{_END}{after}"


def _of(section: ModuleType) -> list[Entry]:
    return [entry for entry in vars(section).values() if isinstance(entry, Entry)]


def _rows(entries: Iterable[Entry], drawn: Callable[[Entry], str]) -> str:
    rows: dict[str, list[str]] = defaultdict(list)
    for entry in entries:
        if drawn(entry) not in rows[entry.id]:
            rows[entry.id].append(drawn(entry))
    return "".join(f"{line}\n" for _, lines in sorted(rows.items()) for line in lines)


def main(docs: Path) -> None:
    """Write both pages."""
    (docs / "errors.md").write_text(errors_page(), encoding="utf-8")
    operations = docs / "operations.md"
    operations.write_text(operations_page(operations.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
