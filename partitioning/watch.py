"""The watch: skew that appears within the day, met as it appears and handed back when it is gone.

A controller after A. Kumar et al., "Reshape", folded over micro-batches (sections 2.1, 3.2, 4.3,
6.1, 6.2). It decides only; its own state is one value, kept between two batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from partitioning.mitigation import Batch, Limits, Mitigation, Sample, Weights
from partitioning.profile import Floats
from partitioning.strategies.greedy import surface
from partitioning.strategies.skew import Threshold, early, helpers, pays, skewed_pairs


@dataclass(frozen=True)
class Watch:
    """What the watch knows between two batches.

    Parameters
    ----------
    threshold : tau, and how it adapts
    last : number of the newest batch that was folded; -1: none
    sample : what has come since channels were last made even
    spread : what is mitigated, by key
    moved : numbers of the batches after which each key was moved, of late
    iterations : how often a mitigation began
    """

    threshold: Threshold
    last: int = -1
    sample: Sample = field(default_factory=Sample)
    spread: Mapping[int, Mitigation] = field(default_factory=dict)
    moved: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    iterations: int = 0

    def fold(
        self,
        batch: Batch,
        epoch: int,
        limits: Limits,
        homes: Mapping[int, int],
        under_way: bool = False,
    ) -> tuple[Watch, dict[int, Weights]]:
        """Take in a batch; returns the watch after it, and new weights of the keys that are to
        move ({channel: 1.0}: whole).

        A batch that was folded before changes nothing; one that an older epoch routed says
        nothing of this one's channels, and only counts as seen.

        Parameters
        ----------
        epoch : in force now
        homes : channel of each of the batch's keys that is whole
        under_way : something else moves state, a daily run or the last decision: nothing is decided
        """
        if batch.number <= self.last:
            return self, {}
        watch = replace(self, last=batch.number)
        if batch.epoch != epoch:
            return watch, {}
        watch = replace(watch, sample=self.sample.taking(batch, self.spread, limits.memory))
        if under_way:
            return watch, {}
        decided: dict[int, Weights] = {}
        for key, now in self.spread.items():
            watch, weights = watch._held(key, now, batch, limits)
            if weights is not None:
                decided[key] = weights
        if decided:
            # Not before: all of them are asked what came until now.
            watch = replace(watch, sample=Sample())
        if not decided and not any(m.catching for m in watch.spread.values()):
            watch, decided = watch._met(batch, limits, homes)
        moved = {k: tuple(n for n in at if n > batch.number - limits.within)
                 for k, at in watch.moved.items()}  # fmt: skip
        for key in decided:
            moved[key] = (*moved.get(key, ()), batch.number)
        return replace(watch, moved={k: at for k, at in moved.items() if at}), decided

    def _may(self, key: int, batch: Batch, limits: Limits) -> bool:
        """Whether a key has not moved too often yet."""
        late = [n for n in self.moved.get(key, ()) if n > batch.number - limits.within]
        return len(late) < limits.moves

    def _held(
        self, key: int, now: Mitigation, batch: Batch, limits: Limits
    ) -> tuple[Watch, Weights | None]:
        """What becomes of a mitigation: from catching up to sharing, or back home."""
        if not self._may(key, batch, limits):
            return self, None
        ahead = batch.waiting[now.home] - max(batch.waiting[h] for h in now.helpers)
        if now.catching:
            if ahead * now.catching > 0:
                return self, None
            after = self.evened(key, now, limits)
            return replace(self, spread={**self.spread, key: after}), after.weights
        if len(self.sample) < limits.memory:
            return self, None
        speed = limits.speed(len(batch.loads))
        loads = self.sample.loads() / speed
        # At home alone it would not make that channel the fullest, or not by much.
        others = np.delete(self.sample.placed(self.spread, without=key) / speed, now.home)
        calm = limits.calm * float((loads * speed).sum() / speed.sum())
        if loads[now.home] <= others.max(initial=calm):
            spread = {k: m for k, m in self.spread.items() if k != key}
            return replace(self, spread=spread), {now.home: 1.0}
        return self, None

    def evened(self, key: int, now: Mitigation, limits: Limits) -> Mitigation:
        """The second phase: weights by which home and helpers will get the same, as fast as they
        are."""
        channels = np.array([now.home, *now.helpers])
        placed = self.sample.placed({**self.spread, key: now}, without=key)
        speed = limits.speed(len(placed))[channels]
        rest = placed[channels] / speed
        level = surface(rest, speed, self.sample.load_of(key))
        gets = np.maximum(level - rest, 0.0) * speed
        parts = zip(channels.tolist(), gets.tolist(), strict=True)
        weights = {channel: part for channel, part in parts if part > 0}
        return replace(now, weights=weights or {now.home: 1.0}, catching=0)

    def _met(
        self, batch: Batch, limits: Limits, homes: Mapping[int, int]
    ) -> tuple[Watch, dict[int, Weights]]:
        """The skew test, and how each skewed channel is relieved."""
        watch, decided = self, dict[int, Weights]()
        loads, slow = self.sample.placed(self.spread), limits.migration(1)
        total = float(loads.sum()) or 1.0
        levels = loads / limits.speed(len(loads))
        for skewed, helper in skewed_pairs(batch.waiting, limits.eta, 0.0):
            gap = float(batch.waiting[skewed] - batch.waiting[helper])
            error = self.sample.error((skewed, helper), limits.per)
            lower = watch.threshold.adjusted(gap, error)
            if lower.tau < watch.threshold.tau:
                watch = replace(watch, threshold=lower)
            ahead, behind = (levels[[skewed, helper]] / total).tolist()
            if gap < early(watch.threshold.tau, ahead, behind, total, slow):
                continue
            begun = watch._again(skewed, helper)
            if not begun:
                begun = watch._begun(skewed, helper, loads, batch, limits, homes)
                split = [k for k, m in begun.items() if m.helpers]
                watch = replace(watch, sample=watch.sample.since(split))
            if not limits.catch_up:
                begun = {
                    k: watch.evened(k, m, limits) if m.catching else m for k, m in begun.items()
                }
            begun = {k: m for k, m in begun.items() if watch._may(k, batch, limits)}
            if begun:
                watch = replace(
                    watch,
                    threshold=watch.threshold.adjusted(gap, error),
                    spread={**watch.spread, **{k: m for k, m in begun.items() if m.helpers}},
                    iterations=watch.iterations + 1,
                )
                decided |= {k: m.weights for k, m in begun.items()}
        return watch, decided

    def _again(self, skewed: int, helper: int) -> dict[int, Mitigation]:
        """A mitigation between the two that no longer holds: whoever has waited less catches up."""
        for key, now in self.spread.items():
            if {skewed, helper} <= {now.home, *now.helpers}:
                ahead = skewed == now.home
                weights = _alike(now.helpers) if ahead else {now.home: 1.0}
                return {key: replace(now, weights=weights, catching=1 if ahead else -1)}
        return {}

    def _begun(
        self,
        skewed: int,
        helper: int,
        loads: Floats,
        batch: Batch,
        limits: Limits,
        homes: Mapping[int, int],
    ) -> dict[int, Mitigation]:
        """A new mitigation: the heaviest key is split by record where it is more than what must
        go, else whole keys go, the heaviest that fit first."""
        total = float(loads.sum())
        left = min(limits.left, limits.memory * total)
        speed = limits.speed(len(loads))
        levels = loads / speed
        need = float((levels[skewed] - levels[helper]) / (1 / speed[[skewed, helper]]).sum())
        whole = {k: c for k, c in homes.items() if k not in self.spread}
        known = {k: self.sample.load_of(k) for k, c in whole.items() if c == skewed}
        keys = sorted(known, key=lambda k: (-known[k], k))
        if limits.splitting and keys and known[keys[0]] > need:
            busy = {c for m in self.spread.values() for c in (m.home, *m.helpers)}
            free = [c for c in range(len(loads)) if c not in busy | {skewed}]
            free = [c for c in free if np.isfinite(batch.waiting[c])]
            free = sorted(free, key=levels.__getitem__)[: limits.copies and limits.copies - 1]
            share = float(levels[skewed]) / total
            count = helpers(share, levels[free] / total, left, left, total, limits.migration)
            if not count or not pays(limits.migration(count), left / total):
                return {}
            chosen = tuple(free[:count])
            return {keys[0]: Mitigation(skewed, chosen, _alike(chosen), 1)}
        moved = {}
        for key in keys:
            if 0 < known[key] <= need and pays(limits.migration(1), left / total):
                moved[key] = Mitigation(skewed, (), {helper: 1.0}, 0)
                need -= known[key]
        return moved


def _alike(channels: Iterable[int]) -> Weights:
    return dict.fromkeys(channels, 1.0)
