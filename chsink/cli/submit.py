"""The file to give to ``spark-submit``: the same as ``chsink run``, in the session that spark-submit configured."""

from __future__ import annotations

import sys

from chsink.cli.main import app

if __name__ == "__main__":
    app(["run", "--jars", "none", *sys.argv[1:]])
