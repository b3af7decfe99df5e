"""Variables with which this checkout runs Spark: from `make setup`, below what the user has set.

`make` and everything that starts a process takes them from here. So `.venv/bin/evenkeel` and
`.venv/bin/pytest` run as they do under make. In an installed wheel there are none.
"""

import os
import re
import shlex
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def environment(small: bool = False) -> dict[str, str]:
    """Return variables to add to a process's environment; values that the user has set stay.

    Parameters
    ----------
    small : use Spark defaults for tables with a few thousand rows
    """
    jars, bin_dir = ROOT / ".jars", ROOT / ".venv" / "bin"
    if not (jars / "conf" / "spark-defaults.conf").is_file():
        return {}
    defaults = {
        "SPARK_CONF_DIR": str(jars / ("small" if small else "conf")),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": str(bin_dir / "python"),
        "PYSPARK_DRIVER_PYTHON": str(bin_dir / "python"),
        # The launcher is a separate JVM that only builds a command line, so it should start fast.
        "SPARK_LAUNCHER_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    found = {name: os.environ.get(name) or value for name, value in defaults.items()}
    if (
        Path(found["SPARK_CONF_DIR"]).parent == jars
    ):  # set by a parent of this process, not by the user
        found["SPARK_CONF_DIR"] = defaults["SPARK_CONF_DIR"]
    found["JAVA_HOME"] = _java_home(jars / "java_home")
    # Use the Spark inside PySpark, not another one on this machine: the versions must be equal.
    found["SPARK_HOME"] = (jars / "spark_home").read_text().strip()
    path = os.environ.get("PATH", os.defpath).split(os.pathsep)
    found["PATH"] = os.pathsep.join([str(bin_dir), *(p for p in path if p != str(bin_dir))])
    return found


def _java_home(recorded: Path) -> str:
    """Return JAVA_HOME if it is Java 17 to 22, else the Java that `make setup` found."""
    home = os.environ.get("JAVA_HOME")
    if home:
        try:
            release = (Path(home) / "release").read_text()
        except OSError:
            release = ""
        version = re.search(r'JAVA_VERSION="(\d+)', release)
        if version and 17 <= int(version[1]) <= 22:
            return home
    return recorded.read_text().strip()


if __name__ == "__main__":
    for name, value in environment().items():
        sys.stdout.write(f"export {name}={shlex.quote(value)}\n")
