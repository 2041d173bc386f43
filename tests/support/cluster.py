"""A standalone Spark cluster on localhost: a master and two workers, each on a host of its own.

The executors of the first worker sleep after each insert: the rows have arrived, but the driver has not been told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from chsink.embedded.base.ports import HOST, accepts, free_port
from chsink.embedded.base.process import Process
from chsink.jvm import jars
from chsink.jvm.java import find_java
from tests.support.child import Child, parent_of
from tests.support.classes import SHORT_LIVED

HOSTS = ("127.0.0.1", "127.0.0.2")
"""A task's copy never runs on the host of the task, so each worker has a host of its own."""
JVM = (*SHORT_LIVED.split(), "-Xmx256m", "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED")
HOME = {"SPARK_HOME": str(jars.spark_jars_folder().parent), "SPARK_SCALA_VERSION": "2.13"}
START_LIMIT_S = 60


class Cluster:
    """A master and two workers of two cores each; executors inherit their worker's environment."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self._stack = stack
        self.fired_log = folder / "fired.log"
        port = free_port()
        self.url = f"spark://{HOST}:{port}"
        arguments = ["--host", HOST, "--port", str(port), "--webui-port", str(free_port())]
        master = self._start("master", "org.apache.spark.deploy.master.Master", arguments, {})
        master.wait_ready(lambda: accepts(port), START_LIMIT_S)
        sleepy = {"CHSINK_FAILPOINTS": "task.after_insert=sleep:10", "CHSINK_FAILPOINTS_LOG": str(self.fired_log)}
        self.workers = [self._worker(number, env) for number, env in enumerate((sleepy, {}))]
        for worker in self.workers:
            worker.wait_ready(partial(_registered, worker), START_LIMIT_S)

    def _worker(self, number: int, env: dict[str, str]) -> Process:
        host = HOSTS[number]
        arguments = ["--cores", "2", "--memory", "1g", "--host", host, "--webui-port", str(free_port())]
        arguments += ["--work-dir", str(self.folder / f"work-{number}"), self.url]
        main = "org.apache.spark.deploy.worker.Worker"
        return self._start(f"worker-{number}", main, arguments, {**env, "SPARK_LOCAL_IP": host})

    def _start(self, name: str, main: str, arguments: Sequence[str], env: dict[str, str]) -> Process:
        argv = [str(find_java()), *JVM, "-cp", f"{jars.spark_jars_folder()}/*", main, *arguments]
        log = self.folder / f"{name}.log"
        process = Process(name, argv, log=log, env={**HOME, **env})
        self._stack.callback(process.stop, 10)
        return process

    @property
    def asleep(self) -> list[int]:
        """Python workers that have inserted and now sleep, in the order in which they fell asleep."""
        lines = self.fired_log.read_text().splitlines() if self.fired_log.exists() else []
        return [int(line.split()[2]) for line in lines]

    def executor_of(self, python_worker: int) -> int:
        """The executor's JVM: the parent of the daemon that forked the Python worker."""
        executor = parent_of(parent_of(python_worker))
        assert parent_of(executor) == self.workers[0].pid, "a process of the first worker"
        return executor


def _registered(worker: Process) -> bool:
    return "registered with master" in worker.log.read_text()


def send_until(what: str, is_so: Callable[[], bool], child: Child) -> None:
    """New records in four partitions, and more whenever all have landed: which worker gets a task is Spark's choice."""

    def send() -> None:
        for partition in range(4):
            child.job.send(partition, 9)

    def so() -> bool:
        if not is_so() and child.job.verdict().exactly_once:
            send()
        return is_so()

    send()
    child.await_that(what, so)


@contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """Start a cluster, and end all of its processes."""
    folder.mkdir()
    with ExitStack() as stack:
        yield Cluster(folder, stack)


SETTINGS = {
    "trigger.mode": "processing_time",
    "trigger.interval": "200 milliseconds",
    "kafka.options.metadata.max.age.ms": 500,
    "spark.conf.spark.executor.cores": 2,
    "spark.conf.spark.executor.memory": "512m",
    "spark.conf.spark.executor.extraJavaOptions": SHORT_LIVED,
    "spark.conf.spark.driver.host": HOST,
    "spark.conf.spark.driver.bindAddress": HOST,
    "spark.conf.spark.speculation": "true",
    "spark.conf.spark.speculation.interval": "100ms",
    "spark.conf.spark.speculation.quantile": 0.5,
    "spark.conf.spark.speculation.efficiency.enabled": "false",
    "spark.conf.spark.speculation.multiplier": 1.1,
    "spark.conf.spark.speculation.minTaskRuntime": "1s",
    "spark.conf.spark.locality.wait": 0,
}
