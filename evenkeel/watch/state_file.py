"""The watch's file in the registry, `watch.json`: whole, with a digest over what is in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from evenkeel.registry.epochs import Registry
from evenkeel.registry.store import parsed_json
from evenkeel.watch.state import Decided, Watched
from partitioning.errors import DamagedError
from partitioning.function.function import canonical_json, digest
from partitioning.strategies.skew import Threshold
from partitioning.watch.controller import Watch
from partitioning.watch.mitigation import Mitigation, Sample, Weights

FORMAT = 1
FILE = "watch.json"


def read(registry: Registry) -> Watched | None:
    """What the watch knows; None: it has never looked.

    Raises
    ------
    DamagedError : the file is torn or edited
    """
    if not registry.store.exists(FILE):
        return None
    where = registry.store.path(FILE)
    values = parsed_json(registry.store.read(FILE), where)
    try:
        claimed = values.pop("digest")
        if digest(values) != claimed or values["format"] != FORMAT:
            raise ValueError("its digest does not fit its content")
        done = values["decided"]
        return Watched(
            source=values["source"],
            epoch=int(values["epoch"]),
            watch=_watch(values["watch"]),
            backlog=np.array(values["backlog"], dtype=np.float64),
            decided=done
            and Decided(
                done["run"], done["number"], weights_of(done["weights"]), _watch(done["after"])
            ),
            told=values["told"],
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise DamagedError(
            f"torn or edited: {error}", where, "Delete it: the watch starts anew"
        ) from error


def write(registry: Registry, watched: Watched) -> None:
    """Replace the file, as a whole."""
    data = to_dict(watched)
    registry.store.write(FILE, canonical_json({**data, "digest": digest(data)}))


def weights_dict(weights: Mapping[int, Weights]) -> dict[str, dict[str, float]]:
    """Weights of keys as plain JSON values."""
    return {str(k): {str(c): w for c, w in owners.items()} for k, owners in weights.items()}


def weights_of(data: Mapping[str, Mapping[str, float]]) -> dict[int, Weights]:
    """Inverse of `weights_dict`; raises AttributeError, TypeError or ValueError."""
    return {int(k): {int(c): float(w) for c, w in own.items()} for k, own in data.items()}


def to_dict(watched: Watched) -> dict[str, Any]:
    """Plain JSON values, without the digest over them."""
    done = watched.decided
    return {
        "format": FORMAT,
        "source": watched.source,
        "epoch": watched.epoch,
        "watch": _watch_dict(watched.watch),
        "backlog": watched.backlog.tolist(),
        "decided": done
        and {
            "run": done.run,
            "number": done.number,
            "weights": weights_dict(done.weights),
            "after": _watch_dict(done.after),
        },
        "told": watched.told,
    }


def _watch_dict(watch: Watch) -> dict[str, Any]:
    return {
        "threshold": asdict(watch.threshold),
        "last": watch.last,
        "sample": [
            [loads.tolist(), {str(k): v for k, v in keys.items()}]
            for loads, keys in watch.sample.batches
        ],
        "spread": {
            str(key): {
                "home": m.home,
                "helpers": list(m.helpers),
                "weights": {str(c): w for c, w in m.weights.items()},
                "catching": m.catching,
            }
            for key, m in watch.spread.items()
        },
        "moved": {str(key): list(at) for key, at in watch.moved.items()},
        "iterations": watch.iterations,
    }


def _watch(data: Mapping[str, Any]) -> Watch:
    return Watch(
        threshold=Threshold(**data["threshold"]),
        last=data["last"],
        sample=Sample(
            tuple(
                (np.array(loads, dtype=np.float64), {int(k): v for k, v in keys.items()})
                for loads, keys in data["sample"]
            )
        ),
        spread={
            int(key): Mitigation(
                m["home"],
                tuple(m["helpers"]),
                {int(c): w for c, w in m["weights"].items()},
                m["catching"],
            )
            for key, m in data["spread"].items()
        },
        moved={int(key): tuple(at) for key, at in data["moved"].items()},
        iterations=data["iterations"],
    )
