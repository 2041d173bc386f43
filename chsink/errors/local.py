"""9xx: this machine: Java, jars, local services.

Exit code 2 (``PreflightError``) for what another start cannot cure, 5 (``UnavailableError``) for the rest.
"""

from __future__ import annotations

from chsink.errors.entry import preflight, unavailable

NO_SUPPORTED_JAVA = preflight(
    "CHS-901",
    "no Java {wanted} found; checked: {seen}",
    "install Java {install}, or set JAVA_HOME to an installed one",
    ok="Java: {java}",
)
JAVA_HOME_IGNORED = preflight(
    "CHS-901",
    "JAVA_HOME is {home}, but {reason}; {java} is used instead",
    "set JAVA_HOME to the folder of a Java 17 or 21, or unset it",
)
JARS_NOT_FETCHED = unavailable(
    "CHS-902",
    "{set_name}: could not download all {count} jars in {attempts} attempts; the end of Ivy's log:\n{log}",
    "check the network and try again; to use a mirror, set CHSINK_IVY_SETTINGS to its Ivy settings file",
)
JAR_CHECKSUM = preflight(
    "CHS-903",
    "{jar} has SHA-256 {found}, but {pinned} is pinned",
    "download it from a repository you trust (CHSINK_IVY_SETTINGS); if you changed the version on purpose, "
    "put the new checksum into {pins}",
)
PROCESS_NOT_READY = unavailable(
    "CHS-904",
    "{service} {what}; the end of its log:\n{tail}",
    "read {log} to find the cause",
)
PROCESS_SURVIVES = unavailable(
    "CHS-904",
    "process {pid} did not end after SIGKILL",
    "run ps -p {pid} to see its state",
)
PORT_TAKEN = unavailable(
    "CHS-904",
    "{service}: port {port} is already in use",
    "stop the program that listens there (`ss -ltnp` lists it), then try again",
)
NO_FREE_PORT = unavailable(
    "CHS-904",
    "no free port between {first} and {end} on {host}",
    "stop a program that listens there (`ss -ltnp` lists them), then try again",
)
KAFKA_NOT_FORMATTED = unavailable(
    "CHS-904",
    "kafka: could not prepare its data folder:\n{output}",
    "correct the settings in {properties}",
)
PROCESS_ENDED = unavailable(
    "CHS-905",
    "process {pid} has ended",
    "start the service again",
)
SERVICE_NOT_RUNNING = unavailable(
    "CHS-905",
    "{service} in {path} is not running",
    "start it first",
)
KAFKA_WAITED = unavailable(
    "CHS-905",
    "kafka: timed out after {limit_s} s waiting for {what}",
    "read the broker's log (`chsink dev status` shows its path)",
)
KAFKA_REFUSED = unavailable(
    "CHS-905",
    "kafka: cannot {what}: {reason}",
    "read the broker's log (`chsink dev status` shows its path)",
)
SERVICE_SILENT = unavailable(
    "CHS-905",
    "{service} at {address} does not answer: {reason}",
    "run `chsink dev up`, then try again",
)
DEV_FOLDER_IN_USE = unavailable(
    "CHS-906",
    "another chsink dev command is using {path}",
    "wait for it to finish, then try again",
)
DEV_FOLDER_FOREIGN = unavailable(
    "CHS-906",
    "{path} is not the state file of a development stack: {reason}",
    "choose another folder with --root",
)
NO_PYSPARK = preflight(
    "CHS-907",
    "PySpark is not installed for {python}",
    "run {python} -m pip install pyspark",
)
DEV_NOT_RUNNING = preflight(
    "CHS-908",
    "no development stack is running in {root}",
    "run `chsink dev up`, or name its folder with --root",
)
FILE_EXISTS = preflight(
    "CHS-909",
    "{path} exists already, and chsink init never overwrites a file",
    "choose another file name, or move this file away",
)
DEV_SQL_REFUSED = preflight(
    "CHS-910",
    "ClickHouse at {address} refused the statement: {reason}",
    "correct the statement; `chsink dev sql` takes one statement at a time",
)
NO_DEV_EXTRA = preflight(
    "CHS-911",
    "the local ClickHouse server needs packages that are not installed: {missing}",
    "run {python} -m pip install {missing}",
)
