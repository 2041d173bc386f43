"""The real end of a task's input is told from a cut."""

from __future__ import annotations

import io

import pyarrow as pa
import pytest

from chsink.spark.input_end import InputCutError, to_the_end, worker_input

BATCH = pa.RecordBatch.from_pydict({"offset": [1, 2, 3]})
END_OF_STREAM = (-4).to_bytes(4, "big", signed=True)


def arrow(*, closed: bool) -> bytes:
    """One batch; a writer that is not closed has written whole batches and nothing after them."""
    sink = io.BytesIO()
    writer = pa.ipc.new_stream(sink, BATCH.schema)
    writer.write_batch(BATCH)
    if closed:
        writer.close()
    return sink.getvalue()


def test_a_whole_input_is_passed_on_and_its_last_word_left_to_spark() -> None:
    stream = io.BufferedReader(io.BytesIO(arrow(closed=True) + END_OF_STREAM))
    assert list(to_the_end(iter(pa.ipc.open_stream(stream)), stream)) == [BATCH]
    assert stream.read() == END_OF_STREAM


@pytest.mark.parametrize("closed", [True, False])
def test_a_cut_input_raises_where_the_reader_alone_sees_an_end(closed: bool) -> None:
    cut = arrow(closed=closed)
    assert list(pa.ipc.open_stream(io.BytesIO(cut))) == [BATCH], "pyarrow takes it for the end"
    stream = io.BufferedReader(io.BytesIO(cut))
    batches = to_the_end(iter(pa.ipc.open_stream(stream)), stream)
    assert next(batches) == BATCH
    with pytest.raises(InputCutError):
        next(batches)


def test_outside_of_a_worker_it_is_said() -> None:
    with pytest.raises(RuntimeError, match="not a Python worker"):
        worker_input()
