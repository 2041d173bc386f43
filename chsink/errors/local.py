"""9xx: this machine: Java, jars, local services.

Exit code 2 (``PreflightError``) for what another start cannot cure, 5 (``UnavailableError``) for the rest.
"""

from __future__ import annotations

from chsink.errors.entry import preflight, unavailable

NO_SUPPORTED_JAVA = preflight(
    "CHS-901",
    "no Java {wanted} was found; checked: {seen}",
    "install Java {install}, or set JAVA_HOME to an installed one",
    ok="Java: {java}",
)
JAVA_HOME_IGNORED = preflight(
    "CHS-901",
    "JAVA_HOME is {home}, but {reason}; {java} is used instead",
    "set JAVA_HOME to the folder of Java 17 or 21, or unset it",
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
    "there is no free port between {first} and {end} on {host}",
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
    "choose another folder, or move this file away; with --from-topic, the .sql file is named after --table",
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

# --- CHS-912 to CHS-918: `chsink doctor --system`

JARS_NOT_THERE = preflight(
    "CHS-912",
    "these jars of Spark's Kafka source are not in {folder}: {names}; the first start downloads them",
    "to download them now, run `chsink jars`; on a machine without a network, copy the folder from one that has them",
    ok="the jars of Spark's Kafka source are in {folder}",
)
DISK_ALMOST_FULL = preflight(
    "CHS-913",
    "{folder} ({what}) has {free} MB left; {least} MB are recommended",
    "free space there, or use another disk: CHSINK_CACHE sets the folder of the jars, SPARK_LOCAL_DIRS that of Spark's "
    "own files, and sink.checkpoint that of the checkpoint",
    ok="{folder} has {free} MB left",
)
CLOCK_NOT_SYNCHRONIZED = preflight(
    "CHS-914",
    "according to the kernel, no time service synchronizes this machine's clock",
    "start one, for instance chrony or systemd-timesyncd; in a container, start it on the host. Only the "
    "times in logs, in `chsink status` and in the mirror depend on this clock",
    ok="a time service synchronizes this machine's clock",
)
CLOCK_NOT_CHECKED = preflight(
    "CHS-914",
    "chsink cannot tell whether a time service synchronizes this machine's clock ({system})",
    "make sure that one does; only the times in logs, in `chsink status` and in the mirror depend on this clock",
)
FEW_FILES = preflight(
    "CHS-915",
    "a process may open {most} files; {least} are recommended, because each connection counts as one",
    "raise the hard limit: LimitNOFILE in a systemd unit, ulimits in a Compose file, `ulimit -Hn` in a root shell",
    ok="a process may open {most} files",
)
FEW_PROCESSES = preflight(
    "CHS-916",
    "{most} processes and threads may run; {least} are recommended, because Java alone starts a hundred threads or "
    "more",
    "raise the limit: TasksMax in a systemd unit, pids_limit in a Compose file, or podPidsLimit of the kubelet",
    ok="processes and threads that may run: {most}",
)
LITTLE_MEMORY = preflight(
    "CHS-917",
    "this machine or container has {memory} MB of memory; about {needed} MB are needed for {tasks:tasks} at a time",
    'give it more memory, or run fewer tasks at a time: spark.master = "local[1]"',
    ok="{memory} MB of memory are enough for {tasks:tasks} at a time",
)
HOST_NAME_UNKNOWN = preflight(
    "CHS-918",
    "this machine's name {name} has no address ({reason}), so Spark does not start",
    "add the name to /etc/hosts, or set SPARK_LOCAL_IP to an address of this machine",
    ok="this machine's name {name} has the address {address}",
)
