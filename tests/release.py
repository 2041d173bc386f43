"""``make release``: what a release would upload, and whether it works where users install it.

Builds the source archive, and the wheel from it; checks both as the package index would; writes the list of all parts
(CycloneDX) beside them; then installs the wheel with every extra, from the registry, into a clean environment for each
supported Python on this machine, and follows README's quick start there.  Nothing is uploaded.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.support.quick_start import follow
from tests.support.walkthrough import Shell

ROOT: Final = Path(__file__).parents[1]
DIST: Final = ROOT / "dist"
TOOLS: Final = ("build==1.6.1", "twine==7.0.0", "cyclonedx-bom==7.5.0", "setuptools==80.9.0")
CLASSIFIER: Final = "Programming Language :: Python :: "


def say(text: str) -> None:
    sys.stdout.write(f"release: {text}\n")
    sys.stdout.flush()


def run(*words: str | Path, cwd: Path = ROOT, env: dict[str, str] | None = None) -> str:
    """A command's output; CalledProcessError, and the output, if it fails."""
    done = subprocess.run([*map(str, words)], cwd=cwd, env=env, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        sys.stderr.write(done.stdout + done.stderr)
        done.check_returncode()
    return done.stdout


def pip(python: Path, *words: str | Path) -> None:
    run(python, "-m", "pip", "--disable-pip-version-check", "--quiet", *words)


def environment(python: str, folder: Path) -> Path:
    """A new environment of this Python; its interpreter."""
    run(python, "-m", "venv", folder)
    return folder / "bin" / "python"


def built(folder: Path) -> Path:
    """Build and check both files and the list of parts; the wheel."""
    shutil.rmtree(DIST, ignore_errors=True)
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    pip(python, "install", *TOOLS)
    run(python, "-m", "build", "--outdir", DIST)
    [wheel], [archive] = DIST.glob("*.whl"), DIST.glob("*.tar.gz")
    run(python, "-m", "twine", "check", "--strict", wheel, archive)
    parts = DIST / f"{wheel.name.removesuffix('-py3-none-any.whl')}.cdx.json"
    run(python, "-m", "cyclonedx_py", "requirements", "--pyproject", "pyproject.toml", "-o", parts, "requirements.lock")
    for file in (archive, wheel, parts):
        say(f"{file.name}, {file.stat().st_size:,} bytes")
    return wheel


def pythons(version: str) -> list[str]:
    """Programs on PATH that are this version of Python: a name may be there and not run."""
    name = f"python{version}"
    asked = [name, "-c", "import sys, ensurepip; print('%d.%d' % sys.version_info[:2])"]
    try:
        done = subprocess.run(asked, check=False, capture_output=True, text=True)
    except FileNotFoundError:
        return []
    return [name] if done.returncode == 0 and done.stdout.strip() == version else []


def tried(wheel: Path, python: str, extras: Sequence[str], folder: Path) -> None:
    """Install the wheel alone, with every extra, and follow the quick start with it."""
    interpreter = environment(python, folder / "env")
    pip(interpreter, "install", f"{wheel}[{','.join(extras)}]")
    pip(interpreter, "check")
    work = folder / "work"
    work.mkdir()
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PYSPARK", "VIRTUAL_ENV"))}
    clean["PATH"] = f"{interpreter.parent}:{clean['PATH']}"

    shell = Shell(work, clean)
    try:
        follow(shell, work)
    finally:
        shell("chsink dev down --delete")


def main() -> int:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    versions = [c.removeprefix(CLASSIFIER) for c in project["classifiers"] if c.startswith(CLASSIFIER)]
    with tempfile.TemporaryDirectory() as name:
        wheel = built(Path(name) / "tools")
        missing = []
        for version in versions:
            found = pythons(version)
            if not found:
                missing.append(version)
                continue
            folder = Path(name) / version
            folder.mkdir()
            tried(wheel, found[0], sorted(project["optional-dependencies"]), folder)
            say(f"Python {version}: installed with every extra, the quick start lands its records")
    if missing:
        say(f"not tried, because it is not on this machine: Python {', '.join(missing)}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
