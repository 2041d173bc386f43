"""Part of ``make lint``: whether a package of requirements.lock has a known vulnerability, by pip-audit in a folder of its own.

It needs a service that knows vulnerabilities, which a mirror of the package index may not be.  What could not be looked
up is said, and is no failure: a build must not depend on that service.  Only a known vulnerability is.
"""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
TOOL: Final = "pip-audit==2.10.1"
LIMIT_S: Final = 300


def main(folder: Path) -> int:
    """1 if a package is vulnerable, else 0.  The tool is installed in ``folder``, once."""
    tool = folder / "bin" / "pip-audit"
    lock = ["--no-deps", "--disable-pip", "--requirement", str(ROOT / "requirements.lock")]
    try:
        if not tool.exists():
            venv.create(folder, with_pip=True, clear=True)
            subprocess.run([folder / "bin" / "pip", "install", "--quiet", TOOL], check=True, timeout=LIMIT_S)
        done = subprocess.run(
            [tool, *lock, "--format", "json", "--progress-spinner", "off", "--timeout", "5"],
            capture_output=True, check=False, text=True, timeout=LIMIT_S,
        )  # fmt: skip
        packages: list[dict[str, Any]] = json.loads(done.stdout)["dependencies"]
    except (subprocess.SubprocessError, ValueError):
        sys.stdout.write("audit: nothing was looked up: the package index or its service does not answer\n")
        return 0
    return report(packages)


def report(packages: Sequence[dict[str, Any]]) -> int:
    """Say what was found, and what was not looked up.  1 if a package is vulnerable, else 0."""
    unknown = [one["name"] for one in packages if "skip_reason" in one]
    vulnerable = [one for one in packages if one.get("vulns")]
    for one in vulnerable:
        for found in one["vulns"]:
            fixed = ", ".join(found["fix_versions"]) or "no version yet"
            sys.stdout.write(f"audit: {one['name']} {one['version']}: {found['id']}, fixed in {fixed}\n")
    if unknown:
        sys.stdout.write(
            f"audit: {len(unknown)} of {len(packages)} packages are not known to the package index's service\n"
        )
    return int(bool(vulnerable))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
