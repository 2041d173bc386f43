"""9xx: the services that chsink starts on this machine.

Exit code 2 (``PreflightError``) for what another start cannot cure, 5 (``UnavailableError``) for the rest.
"""

from __future__ import annotations

from chsink.errors.entry import Entry
from chsink.errors.families import PreflightError, UnavailableError

NO_SUPPORTED_JAVA = Entry(
    "NO_SUPPORTED_JAVA",
    "CHS-901",
    PreflightError,
    "no Java {wanted} found; checked: {seen}",
    "install Java {install}, or set JAVA_HOME to an installed one",
    ok="Java: {java}",
)
JAVA_HOME_IGNORED = Entry(
    "JAVA_HOME_IGNORED",
    "CHS-901",
    PreflightError,
    "JAVA_HOME is {home}, but {reason}; {java} is used instead",
    "set JAVA_HOME to the folder of a Java 17 or 21, or unset it",
)
JARS_NOT_FETCHED = Entry(
    "JARS_NOT_FETCHED",
    "CHS-902",
    UnavailableError,
    "{set_name}: could not download all {count} jars in {attempts} attempts; the end of Ivy's log:\n{log}",
    "check the network and try again; to use a mirror, set CHSINK_IVY_SETTINGS to its Ivy settings file",
)
JAR_CHECKSUM = Entry(
    "JAR_CHECKSUM",
    "CHS-903",
    PreflightError,
    "{jar} has SHA-256 {found}, but {pinned} is pinned",
    "download it from a repository you trust (CHSINK_IVY_SETTINGS); if you changed the version on purpose, "
    "put the new checksum into {pins}",
)
PROCESS_NOT_READY = Entry(
    "PROCESS_NOT_READY",
    "CHS-904",
    UnavailableError,
    "{service} {what}; the end of its log:\n{tail}",
    "read {log} to find the cause",
)
PROCESS_SURVIVES = Entry(
    "PROCESS_SURVIVES",
    "CHS-904",
    UnavailableError,
    "process {pid} did not end after SIGKILL",
    "run ps -p {pid} to see its state",
)
PORT_TAKEN = Entry(
    "PORT_TAKEN",
    "CHS-904",
    UnavailableError,
    "{service}: port {port} is already in use",
    "stop the program that listens there (`ss -ltnp` lists it), then try again",
)
NO_FREE_PORT = Entry(
    "NO_FREE_PORT",
    "CHS-904",
    UnavailableError,
    "no free port between {first} and {end} on {host}",
    "stop a program that listens there (`ss -ltnp` lists them), then try again",
)
KAFKA_NOT_FORMATTED = Entry(
    "KAFKA_NOT_FORMATTED",
    "CHS-904",
    UnavailableError,
    "kafka: could not prepare its data folder:\n{output}",
    "correct the settings in {properties}",
)
PROCESS_ENDED = Entry(
    "PROCESS_ENDED",
    "CHS-905",
    UnavailableError,
    "process {pid} has ended",
    "start the service again",
)
SERVICE_NOT_RUNNING = Entry(
    "SERVICE_NOT_RUNNING",
    "CHS-905",
    UnavailableError,
    "{service} in {path} is not running",
    "start it first",
)
KAFKA_WAITED = Entry(
    "KAFKA_WAITED",
    "CHS-905",
    UnavailableError,
    "kafka: timed out after {limit_s} s waiting for {what}",
    "read the broker's log (`chsink dev status` shows its path)",
)
KAFKA_REFUSED = Entry(
    "KAFKA_REFUSED",
    "CHS-905",
    UnavailableError,
    "kafka: cannot {what}: {reason}",
    "read the broker's log (`chsink dev status` shows its path)",
)
DEV_FOLDER_IN_USE = Entry(
    "DEV_FOLDER_IN_USE",
    "CHS-906",
    UnavailableError,
    "another chsink dev command is using {path}",
    "wait for it to finish, then try again",
)
DEV_FOLDER_FOREIGN = Entry(
    "DEV_FOLDER_FOREIGN",
    "CHS-906",
    UnavailableError,
    "{path} is not the state file of a development stack: {reason}",
    "choose another folder with --root",
)
NO_PYSPARK = Entry(
    "NO_PYSPARK",
    "CHS-907",
    PreflightError,
    "PySpark is not installed for {python}",
    "run {python} -m pip install pyspark",
)
SERVICE_SILENT = Entry(
    "SERVICE_SILENT",
    "CHS-905",
    UnavailableError,
    "{service} at {address} does not answer: {reason}",
    "run `chsink dev up`, then try again",
)
DEV_NOT_RUNNING = Entry(
    "DEV_NOT_RUNNING",
    "CHS-908",
    PreflightError,
    "no development stack is running in {root}",
    "run `chsink dev up`, or name its folder with --root",
)
FILE_EXISTS = Entry(
    "FILE_EXISTS",
    "CHS-909",
    PreflightError,
    "{path} exists already, and chsink init never overwrites a file",
    "choose another file name, or move this file away",
)
DEV_SQL_REFUSED = Entry(
    "DEV_SQL_REFUSED",
    "CHS-910",
    PreflightError,
    "ClickHouse at {address} refused the statement: {reason}",
    "correct the statement; `chsink dev sql` takes one statement at a time",
)
NO_DEV_EXTRA = Entry(
    "NO_DEV_EXTRA",
    "CHS-911",
    PreflightError,
    "the local ClickHouse server needs packages that are not installed: {missing}",
    "run {python} -m pip install {missing}",
)
