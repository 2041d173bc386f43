"""``chsink dev``: services that outlive the command, and never a stranger's process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from chsink.embedded import dev, topics
from chsink.embedded.base.owned import OwnedProcess
from chsink.embedded.base.ports import accepts
from chsink.errors import ChsinkError
from tests.support.kafka import produce, read_all

UP = "import sys; from chsink.embedded.dev import dev_up; print(dev_up(sys.argv[1], clickhouse=1).kafka)"


def up(root: Path) -> str:
    """``dev up`` in a process of its own that ends; returns the broker's address."""
    done = subprocess.run(
        [sys.executable, "-c", UP, str(root)], check=True, capture_output=True, text=True, timeout=120
    )
    assert not done.stderr
    return done.stdout.strip()


@pytest.mark.soak
def test_up_status_down_and_up_again(tmp_path: Path) -> None:
    root = tmp_path / "stack"
    assert not dev.dev_status(root).running
    assert dev.dev_down(root).services == ()
    try:
        bootstrap = up(root)
        stack = dev.dev_status(root)
        assert stack.running
        assert [service.name for service in stack.services] == ["kafka", "zookeeper", "clickhouse-0", "registry"]
        assert stack.kafka == bootstrap
        topics.create_topic(bootstrap, "kept", 1)
        produce(bootstrap, "kept", 0, ["a"])
        assert up(root) == bootstrap, "a stack that runs is returned as it is"
        assert dev.dev_status(root) == stack

        dev.dev_down(root)
        assert not any(accepts(service.port) for service in stack.services)
        assert up(root) == bootstrap, "ports are kept"
        assert [record.value for record in read_all(bootstrap, "kept")] == [b"a"]
    finally:
        dev.dev_down(root, delete=True)
    assert sorted(path.name for path in root.iterdir()) == ["dev.lock"]


def test_down_never_ends_a_stranger(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as stranger:
        own = OwnedProcess.of(stranger.pid)
        claimed = OwnedProcess(stranger.pid, born="another boot/1")
        service = dev.DevService("kafka", "127.0.0.1", 1, "log", claimed)
        (tmp_path / "dev.json").write_bytes(msgspec.json.encode(dev.DevStack((service,))))
        dev.dev_down(tmp_path)
        assert stranger.poll() is None
        assert own.running
        own.end(limit_s=10)
        assert stranger.wait(10) < 0
        assert not own.running


def test_a_process_that_ignores_sigterm_is_killed() -> None:
    program = "import signal, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as stubborn:
        assert stubborn.stdout is not None
        stubborn.stdout.readline()
        OwnedProcess.of(stubborn.pid).end(limit_s=0.2)
        assert stubborn.wait(10) < 0


def test_one_command_at_a_time(tmp_path: Path) -> None:
    with dev._one_command(tmp_path), pytest.raises(ChsinkError, match="CHS-906"):
        dev.dev_down(tmp_path)


def test_a_foreign_state_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "dev.json").write_text("{}[]", encoding="utf-8")
    with pytest.raises(ChsinkError, match="CHS-906"):
        dev.dev_up(tmp_path)


def test_an_ended_process_has_no_identity() -> None:
    pid = os.posix_spawn("/bin/true", ["true"], {})
    os.waitpid(pid, 0)
    with pytest.raises(ChsinkError, match="CHS-905"):
        OwnedProcess.of(pid)
