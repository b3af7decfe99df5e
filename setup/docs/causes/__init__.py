"""Causes of errors: why a user meets a message."""

from __future__ import annotations

import re
from functools import cache

from partitioning.errors import FAULT
from setup.docs.causes.fields import OF_FIELDS
from setup.docs.causes.given import OF_GIVEN
from setup.docs.causes.installation import OF_INSTALLATION
from setup.docs.causes.options import OF_OPTIONS
from setup.docs.causes.single import OF_SINGLE
from setup.docs.causes.specs import OF_SPECS
from setup.docs.causes.state import OF_STATE
from setup.docs.causes.tasks import OF_TASKS

#: Class of errors -> why its messages appear, for the heading of the class.
OF_CLASSES = {
    "DamagedError": "Somebody edited or deleted a file by hand, a copy or a restore was broken "
    "off, or a disk was full. Evenkeel itself writes whole files only.",
    "DeniedError": "The account of this process lacks a right on the store.",
    "FenceError": "Another run, writer or person changed the table or the registry after this work "
    "had read it. Or a run was broken off and has left the table half moved.",
    "GateError": "An expectation of a gate did not hold. The page of the gate names each one.",
    "MissingExtraError": "The wheel was installed without the extra that this command needs.",
    "SetupError": "Versions, variables or Spark's settings on this machine do not fit together.",
    "StoreError": "The store or the network had a failure that is not a matter of rights.",
    "UnderWayError": "A run moves rows at this moment, or was broken off. Or two attempts of one "
    "Airflow task ran at once, for instance after a lost heartbeat.",
    "UnreachableError": "The service is down, starts up, or cannot be reached over the network.",
}
#: Beginning of a message, as a pattern -> why it appears. The first that fits counts.
_OF_MESSAGES = OF_SINGLE | OF_STATE | OF_GIVEN | OF_SPECS | OF_OPTIONS | OF_INSTALLATION | OF_FIELDS
_OF_MESSAGES |= OF_TASKS


@cache
def cause(what: str, fix: str) -> str:
    """Return why a message appears; empty: nobody has written it."""
    if fix.startswith(FAULT):
        return "A rule of Evenkeel's own code is broken. No input of yours does this."
    return next((why for start, why in _OF_MESSAGES.items() if re.match(start, what)), "")


def unused(messages: list[str]) -> list[str]:
    """List the patterns that are the first to fit no message."""
    firsts = {next((start for start in _OF_MESSAGES if re.match(start, m)), "") for m in messages}
    return [start for start in _OF_MESSAGES if start not in firsts]
