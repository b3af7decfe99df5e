"""Guo and Zhou's figures, on the page and from a few windows."""

from itertools import takewhile

import numpy as np
import pytest

from benchmarks.papers import guo_zhou
from benchmarks.papers.rivetti import gauss_zipf
from tests.support.docs.papers import lines_of


def test_guo_zhou_is_filled_from_a_run_that_has_the_papers_order():
    rows, on_learned, where_it_fits = {}, {}, {}
    for line in takewhile(str.strip, lines_of("guo_zhou")[2:]):
        name, variance, _, _, learned, fits, moved, _, acted = line.split()[:9]
        rows[name] = (float(variance), float(moved.rstrip("%")), float(acted.rstrip("%")))
        on_learned[name], where_it_fits[name] = float(learned), float(fits)
    assert rows["elb"][1] < rows["pkg"][1] < rows["uhlb"][1]
    assert rows["pkg"][2] < rows["clb"][2] and rows["clb"][1] < rows["elb"][1]
    assert rows["pkg"][0] < rows["elb"][0] < rows["clb"][0]
    assert on_learned["pkg"] < on_learned["elb"] < on_learned["frontier"] < on_learned["uhlb"]
    assert where_it_fits["frontier"] == min(where_it_fits.values())


def test_guo_zhou_on_a_few_windows():
    profiles = guo_zhou.histograms(0)[:10]
    rows = {name: guo_zhou.measure(name, profiles).row() for name in guo_zhou.NAMES}
    following, deviation, learned, _, moved, _ = np.array(list(rows.values())).T
    assert (following > 0).all() and (deviation > 0).all()
    named = dict(zip(rows, learned, strict=True))
    assert named["pkg"] < named["elb"] < named["uniform"]
    after_it = dict(zip(rows, following, strict=True))
    assert named["pkg"] < after_it["pkg"] / 2 and named["elb"] < after_it["elb"] / 2
    share = dict(zip(rows, moved, strict=True))
    assert share["uniform"] == 0 < share["elb"] < share["pkg"] < share["uhlb"] < 1


def test_guo_zhou_synthetic_streams():
    """The two laws have one mean, the Zipf law the larger variance; CLB alone, every window anew,
    is worse than leaving all as it is, and nearer to the paper's 2.1e10 than anything even."""
    laws = gauss_zipf.laws()
    assert gauss_zipf.mean_key(laws["Gauss"]) == pytest.approx(gauss_zipf.mean_key(laws["Zipf"]))
    assert laws["Gauss"].var() < laws["Zipf"].var()
    with pytest.raises(ValueError, match="no centre"):
        gauss_zipf.gauss(500.0, 20.0)
    for shares in laws.values():
        stream = gauss_zipf.histograms(shares, 20)
        clb = guo_zhou.measure("clb", stream, 10, gauss_zipf.EAGER).following.mean()
        others = [guo_zhou.measure(n, stream).following.mean() for n in ("uniform", "elb", "pkg")]
        assert others[0] > others[1] > others[2] and others[0] < clb / 100
        assert 4e9 < clb < 3.24e10
