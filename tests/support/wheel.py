"""Build the wheel from the files of this checkout, and install it in fresh environments."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import evenkeel

ROOT = Path(__file__).resolve().parents[2]


def tracked() -> list[Path]:
    """List every file of the repository, relative to it."""
    named = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True
    )
    if named.returncode:
        pytest.skip("not a checkout")
    return [file for file in map(Path, named.stdout.splitlines()) if (ROOT / file).exists()]


def copy_checkout(folder: Path) -> Path:
    """Copy every file of the repository into a folder, as a clone has them; return it."""
    for file in tracked():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_bytes((ROOT / file).read_bytes())
    return folder


def build_wheel(folder: Path, version: str | None = None) -> Path:
    """Build the wheel into a folder, from a copy of the checkout's files; return its path.

    Parameters
    ----------
    version : build it as this version; None: the checkout's own
    """
    source = copy_checkout(folder / "source")
    if version:
        about = source / "evenkeel" / "__init__.py"
        text, own = about.read_text(), f'__version__ = "{evenkeel.__version__}"'
        assert own in text
        about.write_text(text.replace(own, f'__version__ = "{version}"'))
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    subprocess.run([*build, "-w", str(folder), str(source)], check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def resolve(folder: Path, *requirements: str, pins: str = "") -> str:
    """Choose a version of all that requirements need, as a constraints file has them.

    Parameters
    ----------
    folder : for files on the way
    pins : a constraints file's text, to keep to
    """
    asked, given = folder / "asked.in", folder / "pins.txt"
    asked.write_text("\n".join(requirements))
    given.write_text(pins)
    uv = [str(ROOT / ".venv/bin/uv"), "pip", "compile", "-q", "--no-header", "--no-annotate"]
    command = [*uv, "--python", sys.executable, "-c", str(given), str(asked)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@dataclass(frozen=True)
class Venv:
    """A virtual environment of its own, that sees nothing of this checkout."""

    folder: Path
    #: The Python that makes it.
    base: str = sys.executable

    @property
    def bin(self) -> Path:
        """Return its folder of programs."""
        return self.folder / "bin"

    def create(self) -> Venv:
        """Make it."""
        subprocess.run([self.base, "-m", "venv", "--clear", str(self.folder)], check=True)
        return self

    def install(self, *requirements: str) -> None:
        """Install packages with uv, which is faster; with pip where uv does not reach the index."""
        uv = [str(ROOT / ".venv/bin/uv"), "pip", "install", "-q", "--python"]
        try:
            subprocess.run([*uv, str(self.bin / "python"), *requirements], check=True)
        except (OSError, subprocess.CalledProcessError):
            self.run("python", "-m", "pip", "install", "-q", *requirements, check=True)

    def run(
        self, program: str, *arguments: str, check: bool = False, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Run one of its programs, or one of the system's, outside of the checkout."""
        done = subprocess.run(
            [program if "/" in program else str(self.bin / program), *arguments],
            cwd=self.folder,
            env={**self.environment(), **variables},
            capture_output=True,
            text=True,
        )
        if check and done.returncode:
            raise AssertionError(
                f"{program} {arguments}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
            )
        return done

    def environment(self) -> dict[str, str]:
        """Return this process's variables, without what would lead back to the checkout."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("AIRFLOW", "EVENKEEL", "PYSPARK", "SPARK", "PYTHON"))
        }
        path = [str(self.bin), *(p for p in os.get_exec_path() if not p.startswith(str(ROOT)))]
        return {**kept, "PATH": os.pathsep.join(path), "COLUMNS": "120"}
