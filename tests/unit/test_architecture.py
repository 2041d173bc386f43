"""The rooms of the code base and who may call whom, read from the import statements.

``statemachine`` is the pure core; ``ports`` says what the sink needs from the world; adapters implement that and do not
know each other; ``batch`` hands micro-batches to landers (``driver``, ``mirror``) and knows none; entry points join them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.support.parsed import nodes, parsed

CHECKOUT = Path(__file__).parents[2]
MAX_LINES = 50
"""Of a function."""

SHARED = {
    "chsink",
    "chsink.as_typed",
    "chsink.errors",
    "chsink.ports",
    "chsink.findings",
    "chsink.refusals",
    "chsink.failpoints",
    "chsink.notation",
    "chsink.statemachine",
}
"""What any room of chsink may use (and every room itself)."""

ROOMS: dict[str, set[str]] = {
    "chsink.as_typed": set(),
    "chsink.errors": set(),
    "chsink.ports": set(),
    "chsink.findings": set(),
    "chsink.refusals": set(),
    "chsink.failpoints": set(),
    "chsink.clock": set(),
    "chsink.stop": set(),
    "chsink.driver_name": set(),
    "chsink.versions": set(),
    "chsink.machine": {"chsink.jvm"},
    "chsink.fields": set(),
    "chsink.notation": set(),
    # [state] is what the stores say it is, and a format what the formats say
    "chsink.config": {
        "chsink.fields",
        "chsink.formats.table_by",
        "chsink.formats.settings",
        "chsink.registry.settings",
        "chsink.state",
    },
    "chsink.sharding": set(),
    "chsink.decode": set(),
    "chsink.registry": {"chsink.fields"},
    "chsink.formats": {"chsink.decode", "chsink.fields", "chsink.registry"},
    "chsink.jvm": set(),
    "chsink.embedded": {"chsink.jvm"},
    "chsink.batch": set(),
    "chsink.driver": {"chsink.batch", "chsink.sharding"},
    "chsink.kafka": {"chsink.config"},
    "chsink.state": {"chsink.fields"},
    "chsink.dlq": {"chsink.driver", "chsink.kafka.idle", "chsink.kafka.transactions"},
    "chsink.clickhouse": {
        "chsink.batch",
        "chsink.driver",
        "chsink.clock",
        "chsink.config",
        "chsink.decode",
        "chsink.dlq",
        "chsink.driver_name",
        "chsink.formats",
        "chsink.sharding",
    },
    "chsink.mirror": {
        "chsink.batch",
        "chsink.config",
        "chsink.decode",
        "chsink.driver_name",
        "chsink.formats",
        "chsink.kafka.ages",
        "chsink.kafka.exact",
        "chsink.kafka.same_records",
        "chsink.kafka.transactions",
    },
    "chsink.observe": {"chsink.batch", "chsink.driver"},
    "chsink.doctor": set(),
    "chsink.connect": {
        "chsink.driver",
        "chsink.clickhouse",
        "chsink.clock",
        "chsink.config",
        "chsink.kafka",
        "chsink.observe",
        "chsink.state",
    },
    "chsink.checks": {
        "chsink.driver",
        "chsink.clickhouse",
        "chsink.config",
        "chsink.connect",
        "chsink.dlq",
        "chsink.doctor",
        "chsink.formats",
        "chsink.kafka",
        "chsink.mirror",
        "chsink.registry",
        "chsink.state",
        "chsink.versions",
    },
    "chsink.apart": {
        "chsink.checks",
        "chsink.clock",
        "chsink.config",
        "chsink.kafka.admin",
        "chsink.mirror",
        "chsink.observe",
        "chsink.stop",
        "chsink.tables",
    },
    "chsink.sample": {
        "chsink.clickhouse",
        "chsink.config",
        "chsink.formats",
        "chsink.kafka",
        "chsink.mirror",
    },
    "chsink.tables": {
        "chsink.driver",
        "chsink.clickhouse",
        "chsink.config",
        "chsink.decode",
        "chsink.dlq",
        "chsink.formats",
        "chsink.kafka",
        "chsink.mirror",
        "chsink.sample",
    },
    "chsink.starter": {
        "chsink.clickhouse",
        "chsink.config",
        "chsink.connect",
        "chsink.decode",
        "chsink.formats",
        "chsink.kafka",
        "chsink.registry",
        "chsink.sample",
        "chsink.tables",
    },
    "chsink.recovery": {
        "chsink.driver",
        "chsink.clickhouse",
        "chsink.dlq",
        "chsink.driver_name",
        "chsink.formats",
        "chsink.kafka",
    },
    "chsink.replay": {
        "chsink.batch",
        "chsink.driver",
        "chsink.clickhouse",
        "chsink.decode",
        "chsink.dlq",
        "chsink.driver_name",
        "chsink.formats",
        "chsink.kafka",
    },
    "chsink.verify": {
        "chsink.driver",
        "chsink.clickhouse",
        "chsink.config",
        "chsink.decode",
        "chsink.dlq",
        "chsink.formats",
        "chsink.kafka",
    },
    "chsink.status": {
        "chsink.driver",
        "chsink.config",
        "chsink.connect",
        "chsink.dlq",
        "chsink.kafka.ages",
        "chsink.observe",
    },
    "chsink.ui": {
        "chsink.clock",
        "chsink.config",
        "chsink.connect",
        "chsink.dlq",
        "chsink.kafka.admin",
        "chsink.mirror.package",
        "chsink.mirror.status",
        "chsink.observe",
        "chsink.status",
    },
    "chsink.spark": {
        "chsink.batch",
        "chsink.driver",
        "chsink.checks",
        "chsink.clickhouse.landing",
        "chsink.clock",
        "chsink.config",
        "chsink.connect",
        "chsink.jvm",
        "chsink.kafka.admin",
        "chsink.kafka.sample",
        "chsink.mirror",
        "chsink.observe",
        "chsink.stop",
        "chsink.tables",
        "chsink.ui.beside",
    },
}
"""Besides SHARED.  ``chsink.cli`` joins all of them.  Only a start, ``doctor`` and the reader of the
status are handed all services (``connect``); other rooms take those that they use.
"""
ENTRY = ("chsink.cli", "chsink.__init__")

CORE = CHECKOUT / "statemachine"
CORE_MODULES = {file.stem for file in CORE.glob("*.py")}
CORE_MAY = {
    "__future__",
    "bisect",
    "collections",
    "collections.abc",
    "dataclasses",
    "enum",
    "hashlib",
    "itertools",
    "json",
    "types",
    "typing",
}
RENDERER_MAY = {"sys"}
SPARK_MAY_BE_IMPORTED_LAZILY_BY = {"chsink/cli/run.py", "chsink/cli/mirror.py", "chsink/jvm/jars.py"}
IMPURE_CALLS = {"open", "print", "input", "exec", "eval", "__import__"}


@dataclass(frozen=True)
class Import:
    """One imported module; ``top`` says that it is imported with the file, not inside a function."""

    file: Path
    module: str
    top: bool

    def __str__(self) -> str:
        return f"{self.file.relative_to(CHECKOUT)} imports {self.module}"


def sources(room: str) -> list[Path]:
    found = sorted((CHECKOUT / room).rglob("*.py"))
    assert found
    return found


@cache
def imports(file: Path) -> Sequence[Import]:
    found, top = [], {id(node) for node in parsed(file).body}
    for node in nodes(file):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.module
            assert node.level == (file.parent == CORE and node.module in CORE_MODULES), f"{file}: {node.module}"
            names = [f"chsink.statemachine.{node.module}" if node.level else node.module]
        else:
            continue
        found += [Import(file, name, id(node) in top) for name in names]
    return found


@cache
def module_of(file: Path) -> str:
    parts = file.relative_to(CHECKOUT).with_suffix("").parts
    return ".".join(("chsink", *parts) if file.is_relative_to(CORE) else parts)


def inside(module: str, room: str) -> bool:
    return module == room or module.startswith(f"{room}.")


@cache
def every() -> list[Import]:
    """Of production code."""
    return [i for package in ("chsink", "statemachine") for file in sources(package) for i in imports(file)]


def test_the_core_uses_the_standard_library_only_and_no_world() -> None:
    wrong = [
        str(i)
        for i in every()
        if i.file.is_relative_to(CORE)
        and not inside(i.module, "chsink.statemachine")
        and i.module not in (CORE_MAY | RENDERER_MAY if i.file.name == "render.py" else CORE_MAY)
    ]
    assert wrong == []


def test_the_core_is_imported_as_part_of_chsink() -> None:
    """``statemachine`` alone is the name of another distribution, and would be a second copy of every class."""
    files = [f for room in ("chsink", "statemachine", "tests", "bench", "demo") for f in sources(room)]
    assert [str(i) for f in files for i in imports(f) if inside(i.module, "statemachine")] == []
    assert (CHECKOUT / "chsink" / "statemachine").resolve() == CORE


def test_the_core_does_nothing_but_compute() -> None:
    calls = [
        (file.name, node.func.id)
        for file in sources("statemachine")
        for node in nodes(file)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    ]
    assert calls
    assert [c for c in calls if c[1] in IMPURE_CALLS and c[0] != "render.py"] == []


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_uses_only_what_it_may(room: str) -> None:
    mine = [i for i in every() if inside(module_of(i.file), room)]
    assert mine, f"no room {room}"
    allowed = {*SHARED, *ROOMS[room]}
    wrong = [
        str(i)
        for i in mine
        if i.module.split(".")[0] in ("chsink", "statemachine")
        and not inside(i.module, room)
        and not any(i.module == a or (a != "chsink" and inside(i.module, a)) for a in allowed)
    ]
    assert wrong == []


def test_every_module_is_in_a_room() -> None:
    known = (*ROOMS, *ENTRY, *(s for s in SHARED if s != "chsink"))
    homeless = [module_of(f) for f in sources("chsink") if not any(inside(module_of(f), room) for room in known)]
    assert homeless == []


def test_only_one_room_imports_spark() -> None:
    wrong = [
        str(i)
        for i in every()
        if i.module.split(".")[0] in ("pyspark", "py4j")
        and not inside(module_of(i.file), "chsink.spark")
        and (i.top or str(i.file.relative_to(CHECKOUT)) not in SPARK_MAY_BE_IMPORTED_LAZILY_BY)
    ]
    assert wrong == []


def test_each_statement_to_clickhouse_goes_through_the_one_client() -> None:
    """⚑ The client pins what a user's profile hides rows with.  A read beside it could find fewer rows than there are, and
    its caller would land the others again.
    """
    reaching = {str(i.file.relative_to(CHECKOUT)) for i in every() if inside(i.module, "clickhouse_connect")}
    assert reaching == {"chsink/clickhouse/client.py", "chsink/clickhouse/transport.py"}


def test_the_command_line_imports_nothing_heavy_at_its_start() -> None:
    heavy = (
        "pyspark",
        "pyarrow",
        "numpy",
        "clickhouse_connect",
        "confluent_kafka",
        "kazoo",
        "chsink.spark",
        "chsink.connect",
        "chsink.checks",
    )
    wrong = [
        str(i)
        for i in every()
        if inside(module_of(i.file), "chsink.cli") and i.top and any(inside(i.module, h) for h in heavy)
    ]
    assert wrong == []


def test_a_function_fits_on_a_screen() -> None:
    long = {
        f"{file.relative_to(CHECKOUT)}: {node.name}": node.end_lineno - node.lineno + 1
        for package in ("chsink", "statemachine")
        for file in sources(package)
        for node in nodes(file)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno
    }
    assert {name: lines for name, lines in long.items() if lines > MAX_LINES} == {}


def modules() -> dict[str, Path]:
    """Every module by name; a package's ``__init__`` under the package's name.

    ``chsink`` itself is left out: it gives the public names, each imported when somebody asks for it.
    """
    files = (f for package in ("chsink", "statemachine") for f in sources(package))
    return {name: f for f in files if (name := module_of(f).removesuffix(".__init__")) != "chsink"}


def test_no_module_imports_itself_through_others() -> None:
    """No circle, imports inside functions and those for type checkers included."""
    known = modules()
    graph: dict[str, set[str]] = {name: set() for name in known}
    for name, file in known.items():
        for node in nodes(file):
            if isinstance(node, ast.Import):
                graph[name].update(alias.name for alias in node.names if alias.name in known)
            elif isinstance(node, ast.ImportFrom) and node.module in known:
                members = {f"{node.module}.{alias.name}" for alias in node.names}
                graph[name].update(members & known.keys())
                if members - known.keys():
                    graph[name].add(node.module)
    left = {name: uses - {name} for name, uses in graph.items()}
    while True:  # who imports nobody that is left, or is imported by nobody that is left, is in no circle
        imported = set[str]().union(*left.values())
        kept = {name: uses & left.keys() for name, uses in left.items() if uses & left.keys() and name in imported}
        if kept == left:
            break
        left = kept
    assert left == {}


READ_THE_TALLY = {
    "chsink.clickhouse.checks.emptied",
    "chsink.statemachine.codec",
    "chsink.statemachine.writes",
    "chsink.status.reader",
    "chsink.verify.letters",
}
"""What shows it to people, asks whether a table should hold rows, stores it, and counts on."""


def test_the_protocol_never_reads_the_tally() -> None:
    """What was left out is for people: no offset's fate may hang on it."""
    reading = {
        name
        for name, file in modules().items()
        for node in nodes(file)
        if isinstance(node, ast.Attribute) and node.attr == "tally"
    }
    assert reading == READ_THE_TALLY


LEAN = (
    "chsink.cli.validate",
    "chsink.cli.status",
    "chsink.cli.ui",
    "chsink.cli.doctor",
    "chsink.cli.state",
    "chsink.cli.verify",
)


def test_commands_that_need_no_spark_do_not_import_it() -> None:
    """Through all that they import, at the top of a file or inside a function."""
    known = modules()
    waiting, seen = list(LEAN), set(LEAN)
    while waiting:
        name = waiting.pop()
        for found in imports(known[name]):
            assert found.module.split(".")[0] not in ("pyspark", "py4j"), str(found)
            nearer = [m for m in (found.module, *parents(found.module)) if m in known and m not in seen]
            seen.update(nearer)
            waiting.extend(nearer)


def parents(module: str) -> Iterator[str]:
    """The packages that importing the module imports too."""
    while "." in module:
        module = module.rpartition(".")[0]
        yield module


WORKERS = ("chsink.spark.executor", "chsink.mirror.task")
"""What each new Python worker of Spark imports to carry out a task of the mirror."""


def test_workers_of_the_mirror_import_nothing_of_its_driver() -> None:
    """Through all that they import with a file: a second of CPU time for each new process, otherwise."""
    drivers = (
        "chsink.config",
        "chsink.mirror.buffer",
        "chsink.mirror.coordinator",
        "chsink.mirror.tables",
        "chsink.observe",
        "kazoo",
        "pyiceberg.catalog",
        "rich",
        "sqlalchemy",
        "structlog",
    )
    known = modules()
    waiting, seen = list(WORKERS), set(WORKERS)
    while waiting:
        name = waiting.pop()
        for found in (i for i in imports(known[name]) if i.top):
            assert not any(inside(found.module, driver) for driver in drivers), str(found)
            nearer = [m for m in (found.module, *parents(found.module)) if m in known and m not in seen]
            seen.update(nearer)
            waiting.extend(nearer)
    assert "chsink.mirror.worker" in seen
