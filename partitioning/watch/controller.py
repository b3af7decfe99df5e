"""The watch: relieve skew when it appears within the day, and undo that when it is gone.

A controller after A. Kumar et al., "Reshape", folded over micro-batches (sections 2.1, 3.2, 4.3,
6.1, 6.2). It only decides. Its state is one value, kept between two batches.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from partitioning.planning.aims import fullest_by_chance
from partitioning.strategies.skew import Threshold, early, helpers, pays, skewed_pairs
from partitioning.strategies.water_filling import surface
from partitioning.watch.mitigation import Limits, MicroBatch, Mitigation, Sample, Weights

#: Load that is too small to matter, in a channel's mean load. A shared key with less goes home in
#: any case. Other keys go home where their channel then exceeds the mean by no more than this. A
#: larger value undoes mitigations earlier.
LIGHT_LOAD = 0.05
#: Events in the sample from which on a key may move. A smaller number lets chance choose keys.
LEAST_ROWS = 10
#: Looks of which chance may mislead one in 20: those of a day. More: less is done about small skew
#: of few events.
LOOKS_A_DAY = 288


@dataclass(frozen=True)
class Controller:
    """Hold what the watch knows between two batches.

    Parameters
    ----------
    threshold : tau, and how it adapts
    last : number of the newest batch that was folded; -1: none
    sample : batches since channels were last made even
    spread : mitigations in force, by key
    moved : numbers of the batches after which each key was moved recently
    iterations : number of mitigations begun
    """

    threshold: Threshold
    last: int = -1
    sample: Sample = field(default_factory=Sample)
    spread: Mapping[int, Mitigation] = field(default_factory=dict)
    moved: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    iterations: int = 0

    def fold(
        self,
        batch: MicroBatch,
        epoch: int,
        limits: Limits,
        homes: Mapping[int, int],
        under_way: bool = False,
    ) -> tuple[Controller, dict[int, Weights]]:
        """Take in a batch, and decide which keys move.

        A batch that was folded before changes nothing. A batch that an older epoch routed is only
        counted as seen, because its channels were different.

        Parameters
        ----------
        epoch : in force now
        homes : channel of each of the batch's keys that is whole
        under_way : a daily run or the last decision moves state now, so nothing is decided

        Returns
        -------
        the watch after the batch, and new weights of the keys that are to move ({channel: 1.0}:
        whole)
        """
        if batch.number <= self.last:
            return self, {}
        watch = replace(self, last=batch.number)
        if batch.epoch != epoch:
            return watch, {}
        watch = replace(watch, sample=self.sample.taking(batch, self.spread, limits.memory))
        if under_way:
            return watch, {}
        watch, decided = watch._end_catching_up(batch, limits)
        if not decided:
            watch, decided = watch._relieve(batch, limits, homes)
        if not decided:
            watch, decided = watch._send_home(batch, limits)
        kept = batch.number - max(limits.within, limits.memory)
        moved = {k: tuple(n for n in at if n > kept) for k, at in watch.moved.items()}
        for key in decided:
            moved[key] = (*moved.get(key, ()), batch.number)
        return replace(watch, moved={k: at for k, at in moved.items() if at}), decided

    def _may(self, key: int, batch: MicroBatch, limits: Limits) -> bool:
        """Return whether a key may move: it has not yet moved too often."""
        if limits.only is not None and key not in limits.only:
            return False
        late = [n for n in self.moved.get(key, ()) if n > batch.number - limits.within]
        return len(late) < limits.moves

    def _end_catching_up(
        self, batch: MicroBatch, limits: Limits
    ) -> tuple[Controller, dict[int, Weights]]:
        """End the catching up of each key whose channels have waited equally long, and share it.

        It also ends where that will never happen, because other keys keep the channels apart.
        """
        spread, decided = dict(self.spread), dict[int, Weights]()
        for key, now in self.spread.items():
            if now.catching and self._may(key, batch, limits):
                ahead = batch.waiting[now.home] - max(batch.waiting[h] for h in now.helpers)
                late = all(n <= batch.number - limits.memory for n in self.moved.get(key, ()))
                if late or ahead * now.catching <= 0:
                    spread[key] = replace(self, spread=spread).even_shares(key, now, limits)
                    decided[key] = spread[key].weights
        # All of them have decided by the events until now, so the sample starts again.
        return (replace(self, spread=spread, sample=Sample()) if decided else self), decided

    def _send_home(
        self, batch: MicroBatch, limits: Limits
    ) -> tuple[Controller, dict[int, Weights]]:
        """Send home each key whose skew is gone."""
        spread, decided = dict(self.spread), dict[int, Weights]()
        if len(self.sample) < limits.memory:
            return self, decided
        speed = limits.speed(len(batch.loads))
        mean = float(self.sample.loads().sum() / speed[np.isfinite(batch.waiting)].sum())
        light = max(limits.calm - 1, LIGHT_LOAD) * mean
        most = mean + light
        for key, now in self.spread.items():
            if now.catching or not self._may(key, batch, limits):
                continue
            others, load = self.sample.placed(spread, without=key), self.sample.load_of(key)
            # At home alone it would not make that channel much fuller than the mean; or it is
            # light, or all of it goes there as it is.
            idle = now.helpers and (
                load / speed[now.home] <= light or set(now.weights) == {now.home}
            )
            if idle or (others[now.home] + load) / speed[now.home] <= most:
                del spread[key]
                decided[key] = {now.home: 1.0}
        return replace(self, spread=spread), decided

    def even_shares(self, key: int, now: Mitigation, limits: Limits) -> Mitigation:
        """Return the mitigation's second phase.

        Home and helpers get equal load for their speed. A key that moved whole stays whole.
        """
        if not now.helpers:
            return now
        channels = np.array([now.home, *now.helpers])
        placed = self.sample.placed({**self.spread, key: now}, without=key)
        speed = limits.speed(len(placed))[channels]
        rest = placed[channels] / speed
        level = surface(rest, speed, self.sample.load_of(key))
        gets = np.maximum(level - rest, 0.0) * speed
        parts = zip(channels.tolist(), gets.tolist(), strict=True)
        weights = {channel: part for channel, part in parts if part > 0}
        return replace(now, weights=weights or {now.home: 1.0}, catching=0)

    def _relieve(
        self, batch: MicroBatch, limits: Limits, homes: Mapping[int, int]
    ) -> tuple[Controller, dict[int, Weights]]:
        """Test for skew, and relieve each skewed channel.

        It continues a mitigation where one exists, and else begins one. The fullest channel comes
        first.
        """
        watch, decided, slow = self, dict[int, Weights](), limits.migration(1)
        speed = limits.speed(len(batch.loads))
        came = batch.loads / speed
        for skewed, helper in skewed_pairs(batch.waiting, limits.eta, 0.0):
            gap = float(batch.waiting[skewed] - batch.waiting[helper])
            error = self.sample.error((skewed, helper), limits.per)
            lower = watch.threshold.adjusted(gap, error)
            if lower.tau < watch.threshold.tau:
                watch = replace(watch, threshold=lower)
            loads = watch.sample.placed(watch.spread)
            total = float(loads.sum()) or 1.0
            ahead, behind = (loads / speed)[[skewed, helper]] / total
            tau = early(watch.threshold.tau, float(ahead), float(behind), total, slow)
            # If a key catches up, the waiting load is on its way. New load is not.
            on_its_way = any(m.catching and skewed in m.channels for m in self.spread.values())
            if gap < tau or (on_its_way and came[skewed] - came[helper] < tau):
                continue
            heaviest = watch._heaviest(skewed, batch, homes)
            new = watch._renew(heaviest, skewed, helper)
            if not new:
                since = watch.sample.since([] if heaviest is None else [heaviest])
                recent = replace(watch, sample=since)
                new = recent._begin(skewed, helper, batch, limits, homes)
                if any(m.helpers for m in new.values()):
                    watch = recent
            if not limits.catch_up:
                new = {k: watch.even_shares(k, m, limits) for k, m in new.items()}
            new = {k: m for k, m in new.items() if watch._may(k, batch, limits)}
            spread = {k: m for k, m in {**watch.spread, **new}.items() if not m.at_home}
            after = replace(watch, spread=spread)
            # New mitigations and those that go on are weighed by other rules: do not mix them.
            if new and (
                not decided
                or bool(watch.keys_placed_since(self)) == bool(after.keys_placed_since(watch))
            ):
                watch = replace(
                    after,
                    threshold=watch.threshold.adjusted(gap, error),
                    iterations=watch.iterations + 1,
                )
                decided |= {k: m.weights for k, m in new.items()}
        return watch, decided

    def keys_placed_since(self, before: Controller) -> set[int]:
        """Return the keys whose mitigation was begun or renewed since `before`."""
        had = {key: now.placed for key, now in before.spread.items()}
        return {key for key, now in self.spread.items() if had.get(key) != now.placed}

    def _heaviest(self, channel: int, batch: MicroBatch, homes: Mapping[int, int]) -> int | None:
        """Return the key that brought a channel most load in this batch; None: none is known."""
        parts = {k: batch.keys.get(k, 0.0) for k, home in homes.items() if home == channel}
        for key, now in self.spread.items():
            parts[key] = dict(now.parts()).get(channel, 0.0) * batch.keys.get(key, 0.0)
        return max(parts, key=lambda k: (parts[k], -k)) if any(parts.values()) else None

    def _renew(self, key: int | None, skewed: int, helper: int) -> dict[int, Mitigation]:
        """Renew the mitigation of a key between these two channels, if it no longer holds.

        The channel that has waited less catches up.
        """
        now = None if key is None else self.spread.get(key)
        if key is None or now is None or not {skewed, helper} <= set(now.channels):
            return {}
        ahead = skewed == now.home
        weights = _alike(now.helpers) if ahead else {now.home: 1.0}
        return {key: replace(now, weights=weights, catching=1 if ahead else -1)}

    def _begin(
        self,
        skewed: int,
        helper: int,
        batch: MicroBatch,
        limits: Limits,
        homes: Mapping[int, int],
    ) -> dict[int, Mitigation]:
        """Begin a mitigation between two channels.

        The heaviest key is split by record if it is more than the load that must go. Else whole
        keys go, the heaviest that fit first.
        """
        loads = self.sample.placed(self.spread)
        total = float(loads.sum())
        left = min(limits.left, limits.memory * total)
        speed = limits.speed(len(loads))
        levels = loads / speed
        mean = total / float(speed[np.isfinite(batch.waiting)].sum())
        open_ = int(np.isfinite(batch.waiting).sum())
        rows = batch.rows_of(total) * len(self.sample)
        calm = max(limits.calm, fullest_by_chance(math.sqrt(open_ / rows), open_ * LOOKS_A_DAY))
        if levels[skewed] <= calm * mean or levels[helper] >= mean:
            # The load that waits there is of the past, or chance explains it.
            return {}
        need = float((levels[skewed] - levels[helper]) / (1 / speed[[skewed, helper]]).sum())
        shared = {k for k, now in self.spread.items() if now.helpers}
        whole = [k for k, c in homes.items() if c == skewed and k not in shared]
        known = {k: self.sample.load_of(k) for k in whole}
        least = LEAST_ROWS * total / rows
        keys = sorted((k for k in known if known[k] >= least), key=lambda k: (-known[k], k))
        if limits.splitting and keys and known[keys[0]] > need > 0:
            # Not who has yet to catch up.
            behind = {m.home for m in self.spread.values() if m.catching > 0}
            behind |= {c for m in self.spread.values() if m.catching < 0 for c in m.helpers}
            able = set(np.flatnonzero(np.isfinite(batch.waiting)).tolist()) - behind - {skewed}
            free = sorted(sorted(able), key=levels.__getitem__)
            free = free[: limits.copies and limits.copies - 1]
            share = float(levels[skewed]) / total
            count = helpers(share, levels[free] / total, left, left, total, limits.migration)
            if not count or not pays(limits.migration(count), left / total):
                return {}
            chosen = tuple(free[:count])
            return {keys[0]: Mitigation(skewed, chosen, _alike(chosen), 1)}
        origin = {k: self.spread[k].home if k in self.spread else skewed for k in keys}
        # Those of the helper's own first, and nothing beside them: they only go back.
        back = [k for k in keys if origin[k] == helper and 0 < known[k] <= need]
        moved = {}
        for key in back or keys:
            if 0 < known[key] <= need and pays(limits.migration(1), left / total):
                moved[key] = Mitigation(origin[key], (), {helper: 1.0}, 0)
                need -= known[key]
        return moved


def _alike(channels: Iterable[int]) -> Weights:
    return dict.fromkeys(channels, 1.0)
