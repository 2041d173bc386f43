"""``make release``: what a release would upload, and whether it works where users install it.

Builds the source archive, and the wheel from it, with pinned tools; checks both as the package index would.  Installs
the wheel with every extra in the locked versions, and writes the list of all these parts (CycloneDX) beside it, with
the jars that a job downloads.  Then installs it as users do, in the newest versions that it allows, into a clean
environment for each supported Python on this machine, and follows README's quick start there.  Pythons that are not
here are named; without the one that the tests run with, it fails.  Nothing is uploaded.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from chsink.jvm.jars import SPARK_KAFKA, pins
from tests.support.quick_start import follow
from tests.support.walkthrough import Shell

ROOT: Final = Path(__file__).parents[1]
DIST: Final = ROOT / "dist"
TOOLS: Final = ("build==1.6.1", "twine==7.0.0", "cyclonedx-bom==7.5.0", "setuptools==84.2.1")
CLASSIFIER: Final = "Programming Language :: Python :: "
NEEDED: Final = "3.11"


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


def built(tools: Path) -> Path:
    """Build and check both files; the wheel.  Times in it are those of the commit."""
    shutil.rmtree(DIST, ignore_errors=True)
    epoch = run("git", "log", "-1", "--format=%ct").strip()
    run(tools, "-m", "build", "--no-isolation", "--outdir", DIST, env={**os.environ, "SOURCE_DATE_EPOCH": epoch})
    [wheel], [archive] = DIST.glob("*.whl"), DIST.glob("*.tar.gz")
    run(tools, "-m", "twine", "check", "--strict", wheel, archive)
    for file in (archive, wheel):
        say(f"{file.name}, {file.stat().st_size:,} bytes")
    return wheel


def list_parts(wheel: Path, extras: Sequence[str], tools: Path, folder: Path) -> None:
    """Install the wheel with every extra in the locked versions, and list what is there then."""
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    python = folder / "bin" / "python"
    pip(tools, "--python", python, "install", "-c", "requirements.lock", f"{wheel}[{','.join(extras)}]")
    pip(tools, "--python", python, "check")
    parts = DIST / f"{wheel.name.removesuffix('-py3-none-any.whl')}.cdx.json"
    run(tools, "-m", "cyclonedx_py", "environment", "--pyproject", "pyproject.toml", "-o", parts, python)
    listed = with_jars(json.loads(parts.read_text(encoding="utf-8")))
    parts.write_text(json.dumps(listed, indent=1), encoding="utf-8")
    say(f"{parts.name}, {len(listed['components'])} parts: the locked versions install together")


def with_jars(listed: dict[str, Any]) -> dict[str, Any]:
    """The list of parts with the jars of Spark's Kafka source, which the wheel names and a job downloads."""
    refs = []
    for jar in pins()[SPARK_KAFKA]:
        refs.append(f"pkg:maven/{jar.organisation}/{jar.name}@{jar.version}?type=jar")
        listed["components"].append(
            {
                "type": "library",
                "bom-ref": refs[-1],
                "group": jar.organisation,
                "name": jar.name,
                "version": jar.version,
                "purl": refs[-1],
                "hashes": [{"alg": "SHA-256", "content": jar.sha256}],
            }
        )
    root = listed["metadata"]["component"]["bom-ref"]
    [of_root] = [each for each in listed["dependencies"] if each["ref"] == root]
    of_root["dependsOn"] = [*of_root.get("dependsOn", ()), *refs]
    listed["dependencies"] += [{"ref": ref} for ref in refs]
    return listed


def found(version: str, environ: Mapping[str, str]) -> str | None:
    """A program that is this version of Python: on PATH, or among pyenv's versions.  None if there is none."""
    name = f"python{version}"
    root = Path(environ.get("PYENV_ROOT") or Path(environ.get("HOME", "")) / ".pyenv")
    on_path = shutil.which(name, path=environ.get("PATH", ""))
    programs = [*filter(None, [on_path]), *map(str, root.glob(f"versions/{version}.*/bin/{name}"))]
    return next((program for program in programs if _is(program, version)), None)


def _is(program: str, version: str) -> bool:
    """Whether it runs: a name on PATH may be a shim of a version manager that has no such version."""
    asked = [program, "-c", "import sys, ensurepip; print('%d.%d' % sys.version_info[:2])"]
    done = subprocess.run(asked, check=False, capture_output=True, text=True)
    return done.returncode == 0 and done.stdout.strip() == version


def tried(wheel: Path, python: str, extras: Sequence[str], folder: Path) -> str:
    """Install the wheel alone, with every extra, and follow the quick start with it; the version of Spark there."""
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
    return run(interpreter, "-c", "from importlib import metadata; print(metadata.version('pyspark'))").strip()


def main() -> int:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    versions = [c.removeprefix(CLASSIFIER) for c in project["classifiers"] if c.startswith(CLASSIFIER)]
    extras, missing = sorted(project["optional-dependencies"]), []
    with tempfile.TemporaryDirectory() as name:
        tools = environment(sys.executable, Path(name) / "tools")
        pip(tools, "install", "--upgrade", *TOOLS)
        wheel = built(tools)
        list_parts(wheel, extras, tools, Path(name) / "locked")
        for version in versions:
            python = found(version, os.environ)
            if python is None:
                missing.append(version)
                continue
            folder = Path(name) / version
            folder.mkdir()
            spark = tried(wheel, python, extras, folder)
            say(f"Python {version}: installed with every extra, the quick start lands its records (pyspark {spark})")
    if missing:
        say(f"not tried, because it is not on this machine: Python {', '.join(missing)}")
    return 1 if NEEDED in missing else 0


if __name__ == "__main__":
    sys.exit(main())
