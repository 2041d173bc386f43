"""What Spark's long messages come down to: one line that says why."""

from __future__ import annotations

import pytest

from chsink.spark.failures import LONGEST_REASON, reason_in, stopped

KILLED = """[STREAM_FAILED] Query [id = 1b, runId = 6d] terminated with exception: [FOREACH_BATCH_USER_FUNCTION_ERROR] An \
error occurred in the user provided function in foreach batch sink. Reason: An exception was raised by the Python Proxy.
  File "a.py", line 644, in _call_proxy
    return_value = getattr(self.pool[obj_id], method)(*params)
py4j.protocol.Py4JJavaError: An error occurred while calling o196.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 failed 1 times: \
org.apache.spark.SparkException: Python worker exited unexpectedly (crashed). Consider setting 'a.b' to 'true'.
\tat org.apache.spark.api.python.BasePythonRunner.read(PythonRunner.scala:700)
Caused by: java.io.EOFException
=== Streaming Query ===
Identifier: [id = 1b]
"""
LOST = """[STREAM_FAILED] Query [id = 0a] terminated with exception: Some data may have been lost;
either the data was aged out by Kafka or the topic may have been deleted.
If you don't want your streaming query to fail on such cases, set the source option failOnDataLoss to false.
Reason: Partition t-0 offset was changed from 10 to 5.
This could be either 1) a user error. SQLSTATE: XXKST
=== Streaming Query ===
"""


def test_a_killed_worker_is_one_line() -> None:
    reason = reason_in(KILLED)
    assert reason.endswith("Python worker exited unexpectedly (crashed).")
    assert "Job aborted due to stage failure" in reason
    assert len(reason.splitlines()) == 1
    assert len(reason) <= LONGEST_REASON


def test_lost_records_are_named_without_advice_that_chsink_refuses() -> None:
    assert reason_in(LOST) == "Partition t-0 offset was changed from 10 to 5."


def test_another_message_is_its_first_line() -> None:
    assert reason_in("one\ntwo") == "one"
    assert reason_in("") == ""
    assert len(reason_in("x" * 9000)) == LONGEST_REASON


@pytest.mark.parametrize(
    "said",
    [
        "Multiple streaming queries are concurrently using file:/job/checkpoint/offsets.",
        "[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log. Multiple streaming jobs detected for 7.",
    ],
)
def test_a_second_process_on_a_checkpoint_has_an_error_of_its_own(said: str) -> None:
    """A supervisor starts it again: Spark may end the newer of the two."""
    error = stopped(RuntimeError(said))
    assert (error.id, error.exit_code) == ("CHS-718", 5)
    assert said[:40] in error.message
