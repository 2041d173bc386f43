"""What a statement's text says about where its data begins and how its result is formatted.

Rules:

- The engine parses and judges every statement; this module only splits.  Where it cannot tell, the statement goes to
  the engine as it is.
- An INSERT that takes its rows from the client is cut into the statement proper, the format, and the place of the first
  byte of data, by the server's own rule: after the format's name, blanks and one line break are skipped.
- The text is handled as Latin-1, so that a position in it is a position in the bytes; SQL's own syntax is ASCII.
- The HTTP interface takes one statement a request; a second one is refused, which keeps data from being run as SQL.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from chsink.embedded.clickhouse.exceptions import INTO_OUTFILE_NOT_ALLOWED, NOT_IMPLEMENTED, SYNTAX_ERROR, refused

# A list of literals is one token: statements with thousands of keys are cut in no time.
_TOKEN: Final = re.compile(
    r"""
      (?P<skip>\s+|--[^\n]*|\#[!\ ][^\n]*|/\*.*?(?:\*/|\Z))
    | (?P<text>'(?:[^'\\]++|\\.|'')*+(?:'|\Z)(?:\s*,\s*'(?:[^'\\]++|\\.|'')*+')*+)
    | (?P<name>`(?:[^`\\]++|\\.|``)*+(?:`|\Z)|"(?:[^"\\]++|\\.|"")*+(?:"|\Z))
    | (?P<heredoc>\$(?P<tag>\w*)\$.*?\$(?P=tag)\$)
    | (?P<number>\d+\b(?:\s*,\s*\d+\b)*)
    | (?P<word>\w+)
    | (?P<mark>.)
    """,
    re.DOTALL | re.VERBOSE | re.ASCII,
)
_DATA_START: Final = re.compile(r"[ \t\f]*\r?\n?")
_OPENING: Final = frozenset("([{")
_CLOSING: Final = frozenset(")]}")
_ANSWERING: Final = frozenset(("SHOW", "DESCRIBE", "DESC", "EXPLAIN", "EXISTS", "CHECK", "KILL", "SYSTEM"))
_SELECTING: Final = frozenset(("SELECT", "WITH", "FROM", "WATCH", "EXPLAIN"))

# Formats whose blocks stand one after another with nothing around them: the engine's block-wise results can be joined.
_BLOCKWISE: Final = frozenset(
    (
        "tabseparated",
        "tsv",
        "tabseparatedraw",
        "tsvraw",
        "raw",
        "tskv",
        "csv",
        "native",
        "rowbinary",
        "lineasstring",
        "rawblob",
        "jsoneachrow",
        "jsonlines",
        "ndjson",
        "jsonstringseachrow",
        "jsoncompacteachrow",
        "jsoncompactstringseachrow",
    )
)


class Token(NamedTuple):
    """A token: ``text`` upper-cased for a bare word, its place as half-open ``[start, end)``."""

    kind: str
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Insert:
    """An INSERT fed by the client.

    ``head`` ends with the table and its columns; ``settings`` are those of its SETTINGS clause, without the keyword;
    the data begin at ``data_start`` of the text.
    """

    head: str
    settings: str
    format: str
    data_start: int


@dataclass(frozen=True, slots=True)
class Query:
    """Anything else: the format its text names, whether it only selects, whether it has a result at all.

    ``end`` is where the statement ends without its FORMAT clause, or a semicolon.
    """

    format: str | None
    selects: bool
    answers: bool
    end: int = field(default=0, compare=False)


def blockwise(format_name: str) -> bool:
    """Whether a result in this format is the plain concatenation of its blocks."""
    return format_name.lower() in _BLOCKWISE


def first_words(text: str, count: int = 3) -> tuple[str, ...]:
    """The first words of a statement, upper-cased; what is not a bare word ends the list."""
    words: list[str] = []
    for token in _tokens(text):
        if token.kind != "word" or len(words) == count:
            break
        words.append(token.text)
    return tuple(words)


def named_in_show_create(text: str, database: str) -> str | None:
    """The table of ``SHOW CREATE [TABLE] database.table …``, None for any other statement."""
    found = list(itertools.islice(_tokens(text), 6))
    words = [token.text for token in found]
    if words[:2] != ["SHOW", "CREATE"]:
        return None
    at = 3 if words[2:3] == ["TABLE"] else 2
    names = [text[token.start : token.end].strip('`"') for token in found[at : at + 3]]
    return names[2] if names[:2] == [database, "."] and len(names) == 3 else None


def split(text: str) -> Insert | Query:
    """Cut a statement; raises ClickHouseException for a second statement and for what only a client program can do."""
    tokens = _tokens(text)
    first = next(tokens, None)
    if first is None:
        raise refused(SYNTAX_ERROR, "Syntax error: failed at position 1 (end of query): Empty query")
    if first.text == "INSERT" and first.kind == "word":
        insert = _insert(text, tokens)
        if insert is not None:
            return insert
    return _query(text)


def refuse_second_statement(text: str) -> None:
    """Raise ClickHouseException when anything follows a semicolon that is not inside quotes."""
    ended = False
    for token in _tokens(text):
        if ended and token.text != ";":
            raise refused(
                SYNTAX_ERROR,
                "Syntax error (Multi-statements are not allowed): "
                f"failed at position {token.start + 1}: {text[token.start : token.start + 60]}",
            )
        ended = token.text == ";"


def _tokens(text: str) -> Iterator[Token]:
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup
        if kind == "skip":
            continue
        assert kind is not None, "every character is of some kind"
        # The named group inside a heredoc is matched before the heredoc itself ends.
        value = match[0].upper() if kind == "word" else match[0]
        yield Token(kind, value, match.start(), match.end())


def _insert(text: str, tokens: Iterator[Token]) -> Insert | None:
    """The split of ``INSERT …``, or None for INSERT … SELECT and the like."""
    depth = 0
    clause: Token | None = None
    previous = Token("mark", "", 0, 0)
    for token in _after_table(tokens):
        opened = depth == 1 and previous.text == "("
        if token.kind == "mark":
            depth += (token.text in _OPENING) - (token.text in _CLOSING)
            if token.text == ";" and depth == 0:
                break
        elif token.kind == "word" and (depth == 0 or opened) and token.text in _SELECTING:
            return None
        elif token.kind == "word" and depth == 0 and token.text == "SETTINGS":
            clause = clause or token
        elif token.kind == "word" and depth == 0 and token.text == "VALUES":
            return Insert(*_clauses(text, clause, token.start), "Values", token.end)
        elif token.kind == "word" and depth == 0 and token.text == "FORMAT":
            return _with_format(text, clause, token, tokens)
        previous = token
    return Insert(*_clauses(text.rstrip().rstrip(";"), clause, len(text)), "Values", len(text))


def _clauses(text: str, clause: Token | None, end: int) -> tuple[str, str]:
    """What stands before the SETTINGS keyword, and behind it up to ``end``."""
    if clause is None:
        return text[:end].rstrip(), ""
    return text[: clause.start].rstrip(), text[clause.end : end].strip()


def _after_table(tokens: Iterator[Token]) -> Iterator[Token]:
    """The tokens behind ``INTO [TABLE] [FUNCTION] name``: a table may be called ``values`` or ``format``."""
    named = False
    for token in tokens:
        if token.kind == "word" and not named and token.text in ("INTO", "TABLE", "FUNCTION"):
            continue
        if not named:
            named = True
            if token.text == "{":  # an identifier that is a parameter
                yield token
            continue
        if token.text == ".":
            named = False
            continue
        yield token


def _with_format(text: str, clause: Token | None, keyword: Token, tokens: Iterator[Token]) -> Insert | None:
    name = next(tokens, None)
    if name is None or name.kind != "word":
        return None
    format_name, end = text[name.start : name.end], name.end
    head, settings = _clauses(text, clause, keyword.start)
    follow = next(tokens, None)
    if follow is not None and follow.text == "SETTINGS" and format_name.upper() != "VALUES":
        end = _settings_end(tokens, follow.end)
        settings = ", ".join(filter(None, (settings, text[follow.end : end].strip())))
    data = _DATA_START.match(text, end)
    assert data is not None, "the pattern matches the empty string"
    return Insert(head, settings, format_name, data.end())


def _settings_end(tokens: Iterator[Token], end: int) -> int:
    """The end of ``name = literal, …``: the first literal that no comma follows."""
    for token in tokens:
        if token.text == "=":
            literal = next(tokens, None)
            if literal is None:
                return end
            if literal.text in "+-":
                literal = next(tokens, literal)
            end = literal.end
            follow = next(tokens, None)
            # A number with a fraction is three tokens.
            while follow is not None and follow.text == "." and follow.start == end:
                fraction = next(tokens, follow)
                end, follow = fraction.end, next(tokens, None)
            if follow is None or follow.text != ",":
                return end
    return end


def _query(text: str) -> Query:
    if ";" in text.rstrip()[:-1]:
        refuse_second_statement(text)
    depth = 0
    tokens: list[Token] = []
    for token in _tokens(text):
        if token.kind == "mark":
            depth += (token.text in _OPENING) - (token.text in _CLOSING)
        if depth == 0 or (token.text in _OPENING and depth == 1) or token.text == "INPUT":
            tokens.append(token)
    while tokens and tokens[-1].text == ";":
        tokens.pop()
    words = [token.text for token in tokens]
    _refuse_client_features(words)
    verb = words[0] if words else ""
    selects = verb in ("SELECT", "WITH", "FROM", "(") and "INSERT" not in words
    format_name, end = _result_format(text, tokens)
    return Query(format_name, selects, selects or verb in _ANSWERING, end)


def _refuse_client_features(words: list[str]) -> None:
    for word, follow in itertools.pairwise(words):
        if word == "INTO" and follow == "OUTFILE":
            raise refused(INTO_OUTFILE_NOT_ALLOWED, "INTO OUTFILE is not allowed")
        if word == "FROM" and follow == "INFILE":
            raise refused(NOT_IMPLEMENTED, "FROM INFILE is a feature of clickhouse-client, not of the server")
        if word == "INPUT" and follow == "(" and words[0] == "INSERT":
            raise refused(NOT_IMPLEMENTED, "Table function input() is not available in the embedded engine")


def _result_format(text: str, tokens: list[Token]) -> tuple[str | None, int]:
    """The name after a FORMAT that nothing but SETTINGS follows, and where it begins; a column may be called format."""
    end = tokens[-1].end if tokens else 0
    for index in range(len(tokens) - 2, 0, -1):
        keyword, name = tokens[index], tokens[index + 1]
        if keyword.text == "FORMAT" and keyword.kind == "word" and name.kind == "word" and name.text != "FROM":
            rest = tokens[index + 2 :]
            if not rest or rest[0].text == "SETTINGS":
                return text[name.start : name.end], keyword.start
            break
    return None, end
