"""An Airflow 3 DAG that lands, every hour, what the topics hold by then.

chsink needs no package of Airflow's, and Airflow none of chsink's: the task runs the command of another environment.
"""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime, timedelta

from airflow.sdk import dag, task
from airflow.sdk.exceptions import AirflowException, AirflowFailException

COMMAND = "/opt/chsink/bin/chsink"
JOB = "/etc/chsink/flights.toml"
DRAIN = (COMMAND, "run", "-c", JOB, "--set", "trigger.mode=available_now", "--set", "observe.progress=never")
A_PERSON = {
    2: "the job file, a table or this machine needs a change",
    3: "it halted: the log says what to do",
    4: "a newer driver owns the sink",
}


@dag(schedule="@hourly", start_date=datetime(2026, 1, 1, tzinfo=UTC), catchup=False, max_active_runs=1)
def land_flights() -> None:
    """One task.  ``max_active_runs``: one driver owns a sink, and a second one would take it over."""

    @task(
        retries=10,
        retry_delay=timedelta(minutes=1),
        max_retry_delay=timedelta(minutes=15),
        retry_exponential_backoff=True,
    )
    def land() -> None:
        """Land what the topics hold.  A job that is killed on the way loses nothing: the next run goes on."""
        code = subprocess.run(DRAIN, check=False).returncode
        if code in A_PERSON:
            raise AirflowFailException(f"chsink ended with exit code {code}: {A_PERSON[code]}")
        if code != 0:
            raise AirflowException(f"chsink ended with exit code {code}: another run goes on from there")

    land()


land_flights()
