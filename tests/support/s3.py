"""A server of S3 that others wrote (moto), on 127.0.0.1, in a Python environment of its own, which is made once beside the
cache of jars.  It keeps objects in memory: they end with it.
"""

from __future__ import annotations

import fcntl
import http.client
import subprocess
import sys
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final

from chsink.embedded.base.ports import HOST, accepts
from chsink.embedded.base.service import Service
from chsink.jvm.jars import cache_folder

REQUIREMENTS: Final = Path(__file__).with_name("s3_requirements.txt")
BUCKET: Final = "lake"


class S3Server(Service):
    """``with S3Server(path) as s3:`` then give a catalog ``s3.properties``.  It has one bucket, ``BUCKET``."""

    def __init__(self, path: Path) -> None:
        super().__init__("s3", path, 0, detach=False, start_limit_s=60, stop_limit_s=10)

    @property
    def url(self) -> str:
        """``s3.endpoint``."""
        return f"http://{self.address}"

    @property
    def properties(self) -> dict[str, str]:
        """pyiceberg's, for whoever reads and writes files there."""
        login = {"s3.access-key-id": "a-key-of-the-tests", "s3.secret-access-key": "a-secret-of-the-tests"}
        return {"s3.endpoint": self.url, "s3.region": "us-east-1", **login}

    @property
    def of_a_catalog(self) -> dict[str, str]:
        """What a REST catalog needs to keep tables here, and to hand out credentials for them."""
        keys = {**self.properties, "s3.session-token": "a-token-of-the-tests", "s3.path-style-access": "true"}
        where = {"io-impl": "org.apache.iceberg.aws.s3.S3FileIO", "warehouse": f"s3://{BUCKET}/rest"}
        return {**keys, **where, "client.region": "us-east-1", "include-credentials": "true"}

    def start(self) -> S3Server:
        """Start it, and make the bucket."""
        super().start()
        connection = http.client.HTTPConnection(HOST, self.port, timeout=30)
        connection.request("PUT", f"/{BUCKET}")
        assert connection.getresponse().status == 200
        connection.close()
        return self

    def _prepare(self) -> Sequence[str]:
        return [str(_environment() / "bin" / "moto_server"), "-H", HOST, "-p", str(self.port)]

    def _is_ready(self) -> bool:
        return accepts(self.port)


def _environment() -> Path:
    """The environment with these requirements."""
    folder = cache_folder().parent / f"tests-s3-{sha256(REQUIREMENTS.read_bytes()).hexdigest()[:12]}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (stamp := folder / "complete").exists():
            subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
            install = [str(folder / "bin" / "pip"), "install", "--quiet", "--no-deps", "-r", str(REQUIREMENTS)]
            subprocess.run(install, check=True)
            stamp.touch()
    return folder
