"""What a message tells a person to do, taken out of its words.

A test that follows a message knows nothing else: each function fails if the message does not say what is asked for.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from itertools import pairwise

from typer.testing import Result

from chsink.errors import ChsinkError
from tests.support.acl_lines import Allowed, allowed

Said = ChsinkError | Result | str
"""An error, a command's refusal, or a text, of which the fixes count if it names any."""


def fix_of(said: Said) -> str:
    """The fixes, on one line."""
    if isinstance(said, ChsinkError):
        return said.hint
    text = " ".join((said.stderr if isinstance(said, Result) else said).split())
    return text.partition("fix: ")[2] or text


def words_of(said: Said, *wanted: str) -> list[str]:
    """The words after ``chsink`` of the first command that has all the ``wanted`` options and arguments.

    Options that the fix offers behind the command (``with --landed, --resend or --lost``) belong to it.
    """
    for part in (said.parts or (said,)) if isinstance(said, ChsinkError) else (said,):
        for found in re.finditer(r"`chsink ([^`]+)`([^`]*)", fix_of(part)):
            words, offered = shlex.split(found[1]), re.findall(r"--[a-z-]+", found[2])
            chosen = [word for word in wanted if word not in words]
            if all(word in offered for word in chosen):
                return [*words, *chosen]
    raise AssertionError(f"no command with {wanted} in: {fix_of(said)}")


def option_of(said: Said, option: str) -> str:
    """The option, which the fix tells to add to the command that was run."""
    assert re.search(rf"(?:with|pass|add|give|or|otherwise) `?{option}(?![a-z-])", fix_of(said)), fix_of(said)
    return option


def left_out(said: Said, words: Sequence[str]) -> list[str]:
    """The words of a command without the options that the fix tells to leave out."""
    found = re.search(r"leave out (--[^;]+)", fix_of(said))
    assert found, fix_of(said)
    options = set(re.findall(r"--[a-z-]+", found[1]))
    assert options & set(words), (found[1], words)
    return [word for at, word in enumerate(words) if not options & {word, words[at - 1] if at else ""}]


def named_in(said: Said, before: str) -> str:
    """The word that follows these words."""
    found = re.search(rf"{re.escape(before)} ([^\s,;]+)", fix_of(said))
    assert found, fix_of(said)
    return found[1]


def rest_of(said: Said, before: str) -> str:
    """What follows these words, up to a semicolon."""
    found = re.search(rf"{re.escape(before)} ([^;]+)", fix_of(said))
    assert found, fix_of(said)
    return found[1]


def setting_of(said: Said, name: str) -> dict[str, str]:
    """The setting with the value that the fix names first."""
    found = re.search(rf'{re.escape(name)} (?:=|to) (?:"(\w+)"|(\d+|true|false)\b)', fix_of(said))
    assert found, fix_of(said)
    return {name: found[1] or found[2]}


def values_of(said: Said) -> dict[str, str]:
    """The settings of a topic, or properties of a table, that the fix tells to set, each with its value."""
    found = re.findall(r"(?:set|and) (?:its )?([a-z.-]+\.[a-z.-]+)(?: of \S+)? to ([\w-]+)", fix_of(said))
    assert found, fix_of(said)
    return dict(found)


def statements_of(said: Said, begins: str) -> list[str]:
    """The SQL statements that begin so.  A statement ends at a semicolon."""
    found = list(dict.fromkeys(one.strip() for one in re.findall(rf"{begins} [^;]+", fix_of(said))))
    assert found, fix_of(said)
    return found


def grants_of(said: Said) -> list[tuple[str, str]]:
    """(what, to whom) of each GRANT."""
    found = re.findall(r"GRANT ([^;]+? ON \S+) TO `([^`]+)`", fix_of(said))
    assert found, fix_of(said)
    return found


def group_commands_of(said: Said) -> list[dict[str, str]]:
    """By option, the values of each ``kafka-consumer-groups.sh`` command; "" for options without one."""
    commands = re.findall(r"kafka-consumer-groups\.sh((?: --[a-z-]+(?: [^\s;()-][^\s;()]*)?)+)", fix_of(said))
    assert commands, fix_of(said)
    return [dict(re.findall(r"--([a-z-]+)(?: (?!--)(\S+))?", one)) for one in commands]


def topic_of(said: Said) -> tuple[str, int, dict[str, str]]:
    """Name, partitions and settings of the topic that a ``kafka-topics.sh`` command creates."""
    found = re.search(r"kafka-topics\.sh ([^;`]+)", fix_of(said))
    assert found, fix_of(said)
    words = shlex.split(found[1])
    assert "--create" in words, words
    named = dict(pairwise(words))
    given = [words[at + 1].partition("=") for at, word in enumerate(words) if word == "--config"]
    return named["--topic"], int(named["--partitions"]), {name: value for name, _, value in given}


def acls_of(said: Said, user: str) -> list[Allowed]:
    """What a ``kafka-acls.sh`` command allows a user whose name it leaves open."""
    found = re.search(r"kafka-acls\.sh [^;`]+", fix_of(said))
    assert found and "User:NAME" in found[0], fix_of(said)
    return [*allowed(found[0].replace("User:NAME", f"User:{user}"))]


def topic_settings_of(said: Said) -> dict[str, str]:
    """The settings of a topic with the values that the fix names."""
    found = re.search(r"set ((?:[a-z.]+=\S+ (?:and )?)+)for the topic", fix_of(said))
    assert found, fix_of(said)
    return dict(re.findall(r"([a-z.]+)=(\S+)", found[1]))


def engine_of(said: Said) -> str:
    """The engine of a table."""
    found = re.search(r"ENGINE = (\w+\([^)]*\))", fix_of(said))
    assert found, fix_of(said)
    return found[1]


def pip_of(said: Said) -> tuple[str, list[str]]:
    """The Python, and the packages that ``pip install`` gets."""
    found = re.search(r"(\S+) -m pip install ((?:'[^']+'|[\w-]+)(?: '[^']+')*)", fix_of(said))
    assert found, fix_of(said)
    return found[1], shlex.split(found[2])


def grant_statements_of(said: Said) -> list[str]:
    """The statements that an administrator runs."""
    found = re.findall(r"GRANT [^;]+? TO `[^`]+`", fix_of(said))
    assert found, fix_of(said)
    return found


def shell_of(said: Said, program: str) -> str:
    """The words of a command line that begins with this program."""
    found = re.search(rf"{re.escape(program)} [^,;`]+", fix_of(said))
    assert found, fix_of(said)
    return found[0]


def says(said: Said, *steps: str) -> None:
    """The fix has these steps, which no program can take: the test takes them."""
    for step in steps:
        assert step in fix_of(said), f"{step!r} is not in: {fix_of(said)}"
