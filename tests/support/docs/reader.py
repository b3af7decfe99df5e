"""A reader of the docs, who has installed Evenkeel as its page says, and has nothing else."""

from __future__ import annotations

import re
import socket
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support.docs.steps import run
from tests.support.wheel import ROOT, Venv, copy_checkout

HOW_TO = ROOT / "docs" / "how-to"
#: Pages of places that nobody had: no test can run their steps.
NOT_TRIED = ("clusters/databricks", "clusters/emr", "clusters/kubernetes")
#: Page -> a section, and the variable without which no test runs it: its program is not on PyPI.
#: An empty section stands for the whole page.
NEEDS = {"read": ("Trino", "TRINO_HOME"), "clusters/yarn": ("", "EVENKEEL_CLUSTER")}
#: A file that is there when the page of the installation has shown a rebalance.
_REBALANCED = "registry/epochs/00000001/report.html"


@dataclass(frozen=True)
class Reader:
    """Who has done what the page of the installation says."""

    wheel: Path
    #: Variables of a fresh shell, as that page says; nothing of this checkout.
    shell: dict[str, str]
    #: Seconds that the steps of that page took, but for its trial of a scheduler.
    seconds: float

    @classmethod
    def in_folder(cls, made: Path) -> Reader:
        """Do it in an empty folder, with an environment of its own and a clone beside."""
        folder, clone = made / "reader", copy_checkout(made / "clone")
        folder.mkdir()
        base = Venv(made / "base").create().environment()
        # The shell has no key of a store, and was in no other folder before.
        own = {
            name: value
            for name, value in base.items()
            if not name.startswith("AWS_") and name != "OLDPWD"
        }
        began = time.time()
        run(HOW_TO / "install.md", folder, {**own, "CLONE": str(clone), "PORT": free_port()})
        (wheel,) = folder.glob("*.whl")
        seconds = (folder / _REBALANCED).stat().st_mtime - began
        return cls(wheel, fresh_shell(HOW_TO / "install.md", folder, own), seconds)

    def pip(self, *arguments: str) -> None:
        """Change what is installed."""
        subprocess.run(["pip", *arguments], env=self.shell, check=True)


def fresh_shell(page: Path, folder: Path, variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a shell that has run one section of a page, and no other step."""
    section = page.read_text().split("## A fresh shell\n")[1].split("\n## ")[0]
    (commands,) = re.findall(r"```sh\n(.*?)```", section, re.S)
    shell = ["bash", "-ec", f"{commands}\nenv -0"]
    said = subprocess.check_output(shell, cwd=folder, env=dict(variables), text=True)
    return dict(variable.split("=", 1) for variable in said.split("\0") if variable)


def free_port() -> str:
    """Return a port of this machine that nobody listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])
