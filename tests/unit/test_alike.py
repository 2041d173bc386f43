"""What ``chsink doctor`` prints once for many tables, topics and servers."""

from __future__ import annotations

from chsink.doctor.alike import alike
from chsink.errors import ConfigError, preflight, values
from chsink.findings import Finding, Severity, found, of_error, passed

TABLES = [f"t{n}" for n in range(28)]


def wide(severity: Severity = Severity.INFO) -> list[Finding]:
    return [found(severity, preflight.GRANTS_WIDE, url=u, table=t) for t in TABLES for u in ("http://a", "http://b")]


def test_one_line_for_all_tables_on_all_servers() -> None:
    """CHS-217 came once a table and server."""
    [said] = alike(wide())
    [sentence] = said.sentences
    assert sentence.startswith(
        "at http://a, http://b this user may also drop and truncate t0, t1, t2, t3, t4 and 23 more,"
    )
    assert said.fix == wide()[0].fix


def test_a_problem_names_each_table() -> None:
    [said] = alike(wide(Severity.WARNING))
    assert all(f" {table}," in said.sentences[0] for table in TABLES)


def test_what_is_well_in_different_ways_is_counted() -> None:
    ok = [passed(preflight.TOPIC_MISSING, topic=t, partitions=4, id=t.upper()) for t in TABLES]
    [said] = alike(ok)
    assert (said.sentences, said.more) == (("t0 exists, with id T0; partitions: 4",), 27)
    assert len(alike(ok[:2])[0].sentences) == 2


def test_what_is_wrong_in_different_ways_is_listed_with_the_fix_once() -> None:
    place = {"count": 1, "records": 2, "table": "d.t", "topic": "t"}
    bad = [
        found(Severity.ERROR, values.SAMPLE_BAD, column=c, reason=r, first=f, **place)
        for c, r, f in [("a", "x", "1"), ("b", "y", "2"), ("c", "z", "3")]
    ]
    [said] = alike(bad)
    assert (said.sentences, said.more) == (tuple(f.sentence for f in bad), 0)


def test_fixes_that_differ_are_not_joined() -> None:
    """A fix is a command at times: of two topics it would be another one."""
    gone = [
        found(Severity.WARNING, preflight.PARTITIONS_GONE, topic=t, partitions="1", reset=f"chsink state reset {t} 1")
        for t in ("a", "b")
    ]
    assert [said.fix for said in alike(gone)] == [f.fix for f in gone]


def test_severities_and_findings_of_unknown_make_stay_apart() -> None:
    assert len(alike([wide()[0], wide(Severity.WARNING)[0]])) == 2
    one, two = (of_error(ConfigError("CHS-1", text, "fix")) for text in ("a", "b"))
    [said] = alike([one, two, one])
    assert said.sentences == ("a", "b", "a")
