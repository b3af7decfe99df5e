"""The pages of docs/papers have the figures and the picture of every experiment, and small runs of
their functions come out as the pages say."""

import re
from itertools import takewhile

import numpy as np
import pytest

from benchmarks.papers import __main__ as papers
from benchmarks.papers import data as data_files
from benchmarks.papers import guo_zhou, pages
from benchmarks.papers.__main__ import QUICK, module_of, to_go
from benchmarks.papers.flexd import flexd, flexd_data, flexd_time, real_data
from benchmarks.papers.gedik_2014 import domain, gedik, gedik_ranges, gedik_steps, gedik_words
from benchmarks.papers.pages import DOCS, code_of, filled, runs_of, timed
from benchmarks.papers.pictures import main
from benchmarks.papers.reshape import reshape_more
from benchmarks.papers.reshape.queues import TWEETS, Run, tweets
from benchmarks.papers.rivetti import gauss_zipf, lossy, rivetti, rivetti_many
from benchmarks.papers.rivetti.rivetti import rivetti_lambda
from evenkeel.backtest.windows import read_series
from evenkeel.demo.flights import write_flights
from partitioning.function.function import numbered_channels
from partitioning.strategies import WHOLE
from partitioning.strategies.published.gedik import scan
from partitioning.streams.zipf_stream import KEY, hashed_keys, zipf
from partitioning.workload.profile import profile_of_keys
from tests.support.docs.papers import after, lines_of

WITHOUT_PICTURE = {
    "lossy",
    "gedik_steps",
    "gedik_ranges",
    "gauss_zipf",
    "guo_zhou_queues",
    "flexd_data",
    "rivetti_many",
    "reshape_more",
    "watch_cost",
    "real_data",
}


@pytest.mark.parametrize("name", QUICK)
def test_every_experiment_has_its_figures(name):
    assert len(lines_of(name)) > 2
    page = pages.page_of(name).read_text()
    assert "new figures\n```\n<!-- end -->" in filled(page, name, "new figures")


def older(name: str) -> bool:
    """Whether an experiment's code has changed since the run that the pages show."""
    return runs_of(pages.INDEX.read_text())[name].split()[-1] != code_of(module_of(name))


@pytest.mark.parametrize("name", QUICK)
def test_a_block_says_whether_it_is_older_than_its_code(name):
    """`python -m benchmarks.papers --mark` writes the notes."""
    assert (pages.OLDER.format(name=name) in pages.page_of(name).read_text()) == older(name)


def test_the_code_of_an_experiment_is_what_decides_its_figures(tmp_path, monkeypatch):
    """Its own modules and the published strategies; a note comes and goes with them."""
    root = tmp_path / "benchmarks" / "papers"
    published = tmp_path / "partitioning" / "strategies" / "published"
    for folder in (root, published):
        folder.mkdir(parents=True)
    (root / "one.py").write_text("from benchmarks.papers.two import run\nSTRATEGIES = run\n")
    (root / "two.py").write_text("run = 1\n")
    (root / "three.py").write_text("run = 1\n")
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    before = [code_of("benchmarks.papers.one")]
    for file in (root / "two.py", published / "dkg.py", root / "one.py"):
        file.write_text("STRATEGIES = 2\n")
        before.append(code_of("benchmarks.papers.one"))
    assert len(set(before)) == 4
    (root / "three.py").write_text("run = 3\n")
    assert code_of("benchmarks.papers.one") == before[-1]
    page = "text\n\n<!-- one -->\n"
    older = pages.marked(page, "one", older=True)
    assert "changed since" in older and pages.marked(older, "one", older=True) == older
    assert pages.marked(older, "one", older=False) == page


def test_pictures_are_of_the_figures_that_stand_there():
    shown = re.findall(r"\(\.\./img/(papers/\w+\.svg)\)", pages.text())
    files = [DOCS / "img" / name for name in shown]
    before = [file.read_text() for file in files]
    main()
    assert [file.read_text() for file in files] == before
    assert len(files) == len(set(QUICK) - WITHOUT_PICTURE)


def test_the_page_says_how_long_each_run_took():
    empty = "<!-- runs -->\n```text\nhead\n```\n<!-- end -->\nrest\n"
    page = timed(empty, "dicer", "  7  2  2026-11-20", QUICK)
    page = timed(page, "gedik", "  1,000  2  2026-11-21", QUICK)
    lines = page.splitlines()
    assert [line.split() for line in lines[3:5]] == [
        ["gedik", "1,000", "2", "2026-11-21"],
        ["dicer", "7", "2", "2026-11-20"],
    ]
    assert lines[-1] == "rest" and len(lines) == 8
    for name in QUICK:
        page = timed(page, name, "  600  2  2026-11-22", QUICK)
    assert page.count("\n") == empty.count("\n") + len(QUICK) + 1
    assert f"all {600 * len(QUICK):,}" in " ".join(page.split())
    assert timed(page, "dicer", "  600  2  2026-11-22", QUICK) == page


def test_the_time_to_go_is_that_of_the_last_runs():
    page = "<!-- runs -->\n```text\nhead\n```\n<!-- end -->\n"
    page = timed(page, "dicer", "  60  2  2026-11-20", QUICK)
    page = timed(page, "gedik", "  1,140  2  2026-11-21", QUICK)
    assert to_go(page, ["gedik", "dicer"]) == "about 20 minutes to go"
    assert to_go(page, ["dicer", "flexd"]) == "about 1 minutes to go and what flexd take"


def test_gedik_is_filled_from_a_run_that_has_the_papers_order():
    b, m, lines = {}, {}, lines_of("gedik")
    heads = next(line for line in lines if "b_s" in line).split()
    for line in lines:
        if line[:14].strip() == "LLL":
            name, values = line[14:25].strip(), line[25:].split()
            b[name], m[name] = (float(values[heads.index(x)]) for x in "bm")
    for tracking in ("scan", "redist", "readj"):
        assert b["frontier"] < b[tracking] < min(b["uniform"], b["consistent"])
        assert m["consistent"] < m[tracking] < m["uniform"]
    assert m["uniform"] > 8 and m["consistent"] < 1
    assert b["frontier"] <= 0.84 and m["frontier"] <= 1.0


def told_of_their_rows(lines: list[str]) -> None:
    """What stands below the tables beside the paper's words is what the rows come to."""
    if older("gedik"):
        pytest.skip("the block is older than the code that tells of it, and says so")
    rows, figure = gedik_words.Rows(), ""
    names = {title: name for name, title in gedik.TITLES.items()}
    for line in takewhile(lambda x: not x.startswith("Fig. "), lines):
        figure = names.get(line, figure)
        if line[14:25].strip() in gedik.NAMES:
            values = [np.array([float(x.replace(",", ""))]) for x in line[25:].split()[:10]]
            keys = ("runs", "b", "se", "b_s", "b_c", "b_n", "m", "se", "explicit", "seconds")
            rows[figure, line[:14].strip(), line[14:25].strip()] = dict(
                zip(keys, values, strict=True)
            )
    shown = after(lines, "Fig.  the paper")[1:]
    for line, (number, words, ours) in zip(shown, gedik_words.told(rows), strict=True):
        assert line[:60] == f"{number:6}{words:54}".rstrip().ljust(60)
        if "CPU" in line or " x " in line or "ring" in line:
            continue  # thousandths of a second, rounded
        # The table has the errors of means, not those of paired differences.
        found, again = (
            re.findall(r"[+-]?[\d.,]*\d", re.sub(r" ± \S+", "", x)) for x in (line[60:], ours)
        )
        assert [float(x.replace(",", "")) for x in found] == pytest.approx(
            [float(x.replace(",", "")) for x in again], abs=0.11 if "%" in ours else 1e-9
        ), line


def test_gedik_is_told_beside_what_the_paper_says():
    told_of_their_rows(lines_of("gedik"))


@pytest.mark.parametrize(
    ("row", "other"),
    [
        (r"^(LLL {11}readj +16 +)1\.3", r"\g<1>1.1"),
        (r"^(LCL 0\.8 +scan .*) 10( )", r"\g<1> 20\g<2>"),
        (r"^(0\.03 +redist .*)1\.34", r"\g<1>2.34"),
    ],
)
def test_a_page_that_tells_other_than_its_rows_is_seen(row, other):
    page = "\n".join(lines_of("gedik"))
    broken = re.sub(row, other, page, flags=re.MULTILINE)
    assert broken != page
    with pytest.raises(AssertionError):
        told_of_their_rows(broken.splitlines())


def test_gedik_lossy_counter_holds_about_what_was_published():
    rows = lines_of("lossy")[2:6]
    assert len(rows) == 4
    for line in rows:
        name, _, _, *numbers = line.replace(",", "").split()[:6]
        mean, least, most = map(float, numbers)
        published = {"LLL": 2500, "LQL": 50_000}[name]
        assert least < published < most and 0.5 < mean / published < 2


def test_guo_zhou_is_filled_from_a_run_that_has_the_papers_order():
    rows, on_learned, where_it_fits = {}, {}, {}
    for line in takewhile(str.strip, lines_of("guo_zhou")[2:]):
        name, variance, _, learned, fits, moved, acted = line.split()[:7]
        rows[name] = (float(variance), float(moved.rstrip("%")), float(acted.rstrip("%")))
        on_learned[name], where_it_fits[name] = float(learned), float(fits)
    assert rows["elb"][1] < rows["pkg"][1] < rows["uhlb"][1]
    assert rows["pkg"][2] < rows["clb"][2] and rows["clb"][1] < rows["elb"][1]
    assert rows["pkg"][0] < rows["elb"][0] < rows["clb"][0]
    assert on_learned["pkg"] < on_learned["elb"] < on_learned["frontier"] < on_learned["uhlb"]
    assert where_it_fits["frontier"] == min(where_it_fits.values())


def test_dkg_is_filled_from_a_run_that_keeps_its_bound():
    """Case 1 of Theorem 4.2: lambda is that of the heaviest key alone, k p - 1; p is Zipf-2's
    first share. 1.5 points for the sample of 20,000."""
    shown = after(lines_of("rivetti"), "Fig. 14")
    counts = [int(k) for k in re.findall(r"k = (\d+)", shown[2])]
    heaviest = float(zipf(10_000, 2.0)[0])
    told = {line.split()[0]: [float(x) for x in line.split()[1:]] for line in shown[3:]}
    assert counts == [2, 3, 4, 6, 8, 10]
    for k, mean, worst, mixed in zip(
        counts, told["dkg"][::2], told["dkg"][1::2], told["dkg_pkg"][::2], strict=True
    ):
        assert abs(mean - 100 * (k * heaviest - 1)) < 1.5
        assert worst < 100 * (k * heaviest - 1) + 7
        assert mixed < mean


def bound_is_kept(lines: list[str]) -> None:
    """Of each row below Theorem 4.2's title: points over the least there is, beside its bound."""
    rows = list(takewhile(str.strip, after(lines, "Theorem 4.2's bound")[3:]))
    assert len(rows) == len(rivetti.BOUNDED)
    held = {}
    for row, (k, theta, mu) in zip(rows, rivetti.BOUNDED, strict=True):
        name, cells, premise = re.fullmatch(r"  (\S+, \S+, \S+) (.+)   (\S.*)", row).groups()
        assert name == f"{k}, {theta:g}, {mu}"
        *measured, most, proven = cells.split()
        assert float(most) == pytest.approx(100 * (1 + theta))
        assert float(proven) == pytest.approx(100 / mu + 100 * max(1, k * theta), abs=0.5)
        value = np.array([float(cell.rstrip("*")) for cell in measured]).reshape(3, 3)
        star = np.array([cell.endswith("*") for cell in measured]).reshape(3, 3)
        assert (star == (value > float(most))).all() and (value[:, 1] <= value[:, 2]).all()
        assert (value[:, 1] <= float(most)).all(), row
        held[k, theta, mu] = premise
        assert (premise == "holds") == (mu >= 1 / theta >= k), row
    assert held[10, 0.1, 2] == "mu < 1/Theta" and held[2, 1.0, 1] == "1/Theta < k"


def test_dkg_is_filled_from_a_run_within_the_theorems_bound():
    bound_is_kept(lines_of("rivetti"))


@pytest.mark.parametrize(
    ("row", "other"),
    [
        (r"^(  5, 0\.1, 10 +\S+ +)\d+\.\d", r"\g<1>110.1"),
        (r"^(  10, 0\.1, 2 .*)\*(.*\*)", r"\1 \2"),
        (r"^(  10, 0\.1, 2 .*) mu < 1/Theta", r"\1 holds"),
        (r"^(  2, 0\.6, 1 .*) 160 ", r"\1 150 "),
    ],
)
def test_a_page_over_the_theorems_bound_is_seen(row, other):
    broken = re.sub(row, other, "\n".join(lines_of("rivetti")), flags=re.MULTILINE).splitlines()
    assert broken != lines_of("rivetti")
    with pytest.raises(AssertionError):
        bound_is_kept(broken)


def test_flexd_is_filled_from_a_run_that_has_the_papers_order():
    shown, skews = after(lines_of("flexd"), "10 channels,"), "1, 1.5, 2, 2.5, 3"
    for other in ("pstream", "dalton"):
        assert f"  lambda of flexd below {other}'s: z = {skews}" in shown
    assert f"  gamma of flexd below pstream's: z = {skews}" in shown


def test_a_page_with_figures_of_a_broken_run_is_seen(monkeypatch):
    """Scan and frontier that changed places are red."""
    page = pages.text()
    swapped = re.sub(
        r"^(LLL {11})(scan    |frontier)(.*)$",
        lambda m: m[1] + {"scan    ": "frontier", "frontier": "scan    "}[m[2]] + m[3],
        page,
        flags=re.MULTILINE,
    )
    assert swapped != page
    monkeypatch.setattr(pages, "text", lambda: swapped)
    with pytest.raises(AssertionError):
        test_gedik_is_filled_from_a_run_that_has_the_papers_order()


def test_gedik_grown_to_three_channels():
    """Uniform moves N - 1 new channels' shares, the ring less than one; frontier is the most even,
    near the least there is, 1/alpha."""
    setting = gedik.Setting(keys=20_000, z=0.8, channels=3)
    ends = {name: list(gedik.grow(name, setting, 0)) for name in gedik.NAMES}
    assert all([step["channels"] for step in steps] == [2, 3] for steps in ends.values())
    last = {name: steps[-1] for name, steps in ends.items()}
    assert last["uniform"]["m"] == pytest.approx(2, abs=0.3)
    assert last["consistent"]["m"] < 1.3 and last["uniform"]["explicit"] == 0
    assert 1 / gedik.ALPHA <= last["frontier"]["b"] < 1.01 / gedik.ALPHA
    for name in gedik.TRACKING:
        assert last["frontier"]["b"] < last[name]["b"] < last["consistent"]["b"]


def test_gedik_utility_a_migrates_more_under_lql():
    """Fig. 7a, on a smaller domain: U^A ignores the migration."""
    moved = {}
    for utility in ("A", "APM"):
        setting = gedik.Setting(keys=50_000, channels=8, resources="LQL", utility=utility)
        steps = [step["m"] for seed in range(2) for step in gedik.grow("readj", setting, seed)]
        moved[utility] = np.mean(steps)
    assert moved["APM"] < moved["A"]


def test_gedik_bounds_that_the_page_tells():
    assert gedik_steps.by_rank(32) == pytest.approx(22.5, abs=0.15)
    assert gedik_steps.first_key(10) == pytest.approx(1.22, abs=0.005)


def test_gedik_over_wider_ranges():
    """Fig. 8 and Table 1's ranges, small: b is told in alphas, which frontier does not aim at."""

    def row(name, shown=(8,), **given):
        setting = gedik.Setting(keys=5_000, channels=8, **given)
        return np.array(gedik_ranges.measured((name, setting, 0, shown)))

    wide, narrow = (row("frontier", alpha=alpha)[0] for alpha in (3.0, 1.2))
    assert wide[0] == pytest.approx(narrow[0] * 1.2 / 3.0, rel=0.01)
    assert wide[1] == pytest.approx(narrow[1], rel=0.01)
    strict, default = (row("scan", alpha=alpha)[0] for alpha in (1.05, 1.2))
    assert strict[4] > 2 * default[4], "the stricter, the more keys are tracked"
    assert row("readj", (2, 5, 8)).shape == (3, len(gedik_ranges.MEASURES))
    assert row("frontier", z=1.5)[0][0] == gedik_ranges.EMPTY, "a channel that gets nothing"
    assert "inf" in gedik_ranges.row(np.array([[gedik_ranges.EMPTY, 1.0, 1.0, 0.0, 1.0, 0.1]] * 2))


def test_gedik_sums_by_slot_are_those_of_every_key():
    """A domain counted in parts places and moves as all its keys do."""
    hashes, load = hashed_keys(20_000, 3), zipf(20_000, 1.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(domain, "PART", 7_000)
        known = domain.domain.__wrapped__(20_000, 1.0, 3, 512)
    functions = []
    for count in (4, 5):
        before = functions[-1] if functions else None
        listed = None if before is None else before.explicit_keys
        profile = known.profile(0.005, listed, "L")
        every = profile_of_keys(KEY, hashes, load, 512, threshold=0.005, listed=listed)
        assert (profile.heavy == every.heavy).all() and profile.load == pytest.approx(every.load)
        functions.append(scan(profile, before, numbered_channels(count), sigma=0.5))
    before, after = functions
    owners = after.lookup_hashes(hashes)
    assert len(after.explicit_keys) > 3
    for resource, cost in (("L", load), ("C", np.ones(20_000)), ("Q", load**2)):
        assert known.loads(after, resource) == pytest.approx(np.bincount(owners, cost, minlength=5))
    moved = load[before.lookup_hashes(hashes) != owners].sum()
    assert known.moved(before, after, "L") == pytest.approx(moved)


def test_gedik_errors_are_those_of_paired_runs():
    """A ratio of means whose two runs vary together has a small error."""
    theirs = np.random.default_rng(0).normal(2.0, 0.5, 16)
    value, error = gedik_words.ratio(1.1 * theirs, theirs)
    assert value == pytest.approx(0.1) and error == pytest.approx(0, abs=1e-9)
    assert gedik_words.error(theirs) == pytest.approx(theirs.std(ddof=1) / 4)
    assert np.isnan(gedik_words.error(theirs[:1]))


def test_lossy_counter_grows_with_channels():
    """Fig. 11: as many more items as channels; Fig. 9: fewer as sigma grows."""
    at = {n: np.mean(lossy.sizes("LLL", 50_000, keys=50_000, channels=n)[1]) for n in (5, 10)}
    assert 1.5 < at[10] / at[5] < 3
    coarse = np.mean(lossy.sizes("LLL", 50_000, keys=50_000, sigma=1.0)[1])
    assert coarse < at[10] / 3


def test_rivetti_on_few_runs():
    """Case 1 of Theorem 4.2 at z = 2; at z = 1 the sparse items' mapping is what counts."""
    heaviest = float(zipf(rivetti.ITEMS, 2.0)[0])
    assert rivetti.imbalances("dkg", 2.0, 4, 2) == pytest.approx(100 * (4 * heaviest - 1), abs=4)
    assert rivetti.imbalances("sia", 2.0, 4, 1) == pytest.approx(300)
    with_them, without = (
        rivetti.imbalances(name, 1.0, 10, 3).mean() for name in ("dkg", "dkg_wosim")
    )
    assert with_them < 0.9 * without


def test_rivetti_where_a_key_has_a_fifth():
    alpha = rivetti.skew_of(rivetti.CELLS, rivetti.FIRST)
    assert zipf(rivetti.CELLS, alpha)[0] == pytest.approx(0.2)
    even = {
        (name, k): rivetti.imbalances(name, alpha, k, 3, items=rivetti.CELLS).mean()
        for name in ("oapx", "dkg", "uniform", "frontier")
        for k in (4, 8)
    }
    assert even["oapx", 4] < 0.1 and even["frontier", 4] < 3 < even["dkg", 4]
    assert even["dkg", 4] < even["uniform", 4] / 3
    # A channel's share is 1/8: a fifth is 60% over it.
    assert all(even[name, 8] == pytest.approx(60, abs=4) for name in ("oapx", "dkg", "frontier"))


def test_rivetti_worst_cases_of_many_runs():
    """What learns nothing spreads far over the runs; what learns hardly does."""
    lam = {k: [rivetti_lambda(x) for x in v] for k, v in rivetti_many.of_universal(200).items()}
    assert max(lam[2]) > 90 and max(lam[10]) > 700 and min(lam[2]) < 35
    found = rivetti_many.of_learners(5)
    assert set(found) == {"dkg", "frontier"} and found["dkg"][10].shape == (5, 10)
    for by_count in found.values():
        assert np.ptp([rivetti_lambda(x) for x in by_count[10]]) < 20 < np.ptp(lam[10]) / 5


def test_rivetti_quadratic_cost():
    """Fig. 5: squares of whole buckets keep DKG from O-apx for k < 5 and not beyond; counting the
    distinct items mends it, as the paper supposes."""
    found = {name: x.mean(axis=0) for name, x in rivetti_many.quadratic(2).items()}
    few, many = slice(0, 2), slice(6, 9)
    assert (found["dkg"][few] > 1.3 * found["oapx"][few]).all()
    assert (found["dkg"][many] < 1.05 * found["oapx"][many]).all()
    assert (found["dkg, distinct"][few] < 1.1 * found["oapx"][few]).all()
    assert (found["frontier"][few] < found["dkg"][few]).all()
    assert (found["sia"] > found["universal"]).all()


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


def test_flexd_on_a_few_rows(monkeypatch):
    monkeypatch.setattr(flexd, "SKEWS", (2.0,))
    found = flexd.measure(10, 20_000)
    lam, copies = ({name: values[2.0][i] for name, values in found.items()} for i in range(2))
    assert lam["flexd"] < lam["pstream"] < lam["pkg"] < lam["uniform"]
    assert 1 == copies["uniform"] < copies["flexd"] < copies["dalton"] < copies["pstream"]
    assert lam["dalton, no cap"] < lam["dalton"]
    assert copies["dalton"] < copies["dalton, no cap"] < copies["pstream"]
    assert copies["flexd, delta 2"] < copies["flexd"] < copies["flexd, delta 1.05"]


def test_frontier_is_even_with_the_least_copies(monkeypatch):
    """Of each other strategy: it is no more even, or both are within .5%, and it has no fewer
    copies; or it has too few for that, and frontier with as few is more even."""
    monkeypatch.setattr(flexd, "SKEWS", (1.0, 2.0))
    found = flexd.as_functions(100)
    for z, copies in ((1.0, 27), (2.0, 88)):
        lam, ours = found[flexd.OURS][z]
        assert lam < 0.001 and ours == found["least for it"][z][1] == copies
        for name in flexd.RIVALS:
            theirs, most = found[name][z]
            if most < ours:
                assert (name, z) in {("flexd", 2.0), ("pkg", 2.0), ("dalton", 2.0)}
                held, held_copies = found[f" with {name}'s"][z]
                assert held < theirs / 5 and held_copies <= most
            else:
                assert lam <= max(theirs, 0.005)
    assert flexd.chance(2.0, 100, flexd.MANY) < 0.005


def test_reshape_by_how_busy_workers_are():
    """7.12: Flink's controller sees two busy workers as alike, and leaves what one has ahead."""
    ratio = {}
    for name, options in (("queues", reshape_more.BY_QUEUES), ("busy", reshape_more.BY_BUSY)):
        run = Run("reshape", **options).go(tweets(1_000), TWEETS)
        ratio[name] = np.mean(run.balance)
        assert run.iterations >= 1 and run.allotted.sum() == pytest.approx(27_600)
    assert 0.85 < ratio["busy"] < 0.95 < ratio["queues"]


def test_reshape_detects_moderate_skew_later():
    """7.7: workers that keep up with the input are never skewed."""
    counts = {join: reshape_more.counts_of(join, 40) for join in reshape_more.JOINS}
    assert counts["item"].max() > 1.5 * counts["date"].max()
    speed = counts["item"].max() / 267
    found = {join: reshape_more.ratios(each, 267, speed, 0.4) for join, each in counts.items()}
    assert np.median(found["item"]) > 0.77 > np.median(found["date"])
    quick = reshape_more.ratios(counts["date"], 267, speed, 0.05)
    assert min(quick) > max(0.8, np.median(found["date"]))


def test_flexd_over_time_begins_without_knowledge():
    """Fig. 9: PStream's and Dalton's lambda begin high, FlexD's is steady from the start."""
    data = flexd.series(2.0, flexd_time.ROWS, count=6)
    of = {name: flexd_time.course(data, name, {}) for name in ("pstream", "dalton", "flexd")}
    assert all(len(values) == 6 for values in of.values())
    assert of["dalton"][0] > np.mean(of["dalton"][1:]) and of["pstream"][0] > of["flexd"][0]
    assert min(of["dalton"]) > 3 * max(of["flexd"]), "the cap leaves the hottest key six channels"
    assert np.ptp(of["flexd"]) < 0.1
    ours = flexd_time.course(data, "frontier", {"splitting": True})
    assert np.isnan(ours[0]) and max(ours[1:]) < min(of["pstream"])


def test_flexd_on_what_stands_in_for_real_data(tmp_path, monkeypatch):
    """Flights are there wherever the demo is; files of other data may be missing."""
    # How even frontier gets in 2 s depends on the machine; how even it is asked to be does not.
    timed, aimed = flexd_data.TIMED, {"max_imbalance": 1.3}
    runs = [
        (label, name, aimed | {k: v for k, v in options.items() if k not in timed})
        if options.keys() & timed
        else (label, name, options)
        for label, name, options in flexd_data.RUNS
    ]
    assert "seconds" in timed and sum(aimed.items() <= given.items() for *_, given in runs) == 2
    monkeypatch.setattr(flexd_data, "RUNS", runs)
    write_flights(tmp_path / "flights.parquet")
    voters = next(s for s in flexd_data.SOURCES if s.paper == "Voters")
    data = flexd_data.read(voters, 25_000, tmp_path)
    assert data is not None and len(data.windows) == 5 and data.windows[0].rows == 5_000
    found = {label: values[0] for label, values in flexd_data.measure(data, (24,)).items()}
    assert found["flexd"][0] < found["dkg"][0] < found["uniform"][0]
    assert found["frontier"][0] < found["dkg"][0] and found["frontier"][1] == 1.0
    assert 1 < found["flexd"][1] < found["dalton"][1] < found["pstream"][1]
    assert found["flexd"][0] < min(found["pstream"][0], found["dalton"][0])
    assert found["dalton"][1] < found["dalton, no cap"][1]
    told = list(flexd_data.orderings({k: [v] for k, v in found.items()}, voters.told, (24,)))
    assert told[2] == "  gamma of flexd below pstream's: N = 24"
    monkeypatch.setattr(data_files, "DATA", tmp_path)
    words = next(s for s in flexd_data.SOURCES if s.paper == "WikiText")
    assert flexd_data.read(words, 10, tmp_path) is None
    (tmp_path / "words.txt").write_text("a\nb\na\nc\n" * 10)
    read = flexd_data.read(words, 10, tmp_path)
    assert read is not None and len(read.windows) == 5
    assert data_files.find(data_files.PURCHASES) is None
    even = flexd_data.read(flexd_data.SOURCES[-1], 10_000, tmp_path)
    assert even is not None and max(w.load.max() for w in even.windows) < 10


def test_without_its_data_an_experiment_leaves_the_page_alone(tmp_path, monkeypatch, capsys):
    page = tmp_path / "PAPERS.md"
    before = "<!-- real_data -->\n```text\nold\n```\n<!-- end -->\n"
    page.write_text(before)
    monkeypatch.setattr(papers, "INDEX", page)
    monkeypatch.setattr(papers, "put", lambda *given: page.write_text(str(given)))
    monkeypatch.setattr(papers, "draw_all", lambda: None)
    monkeypatch.setenv("EVENKEEL_DATA", str(tmp_path))
    assert papers.main(["real_data"]) == 0
    assert "lacked data" in capsys.readouterr().out and page.read_text() == before


def test_real_data_are_filled_from_a_run_where_frontier_is_below_all():
    """At each N, of those that plan for themselves; on 20 channels by half a percent and more."""
    lines = lines_of("real_data")
    for title, *_ in real_data.SERIES:
        shown = takewhile(str.strip, after(lines, f"{title}:")[2:])
        even = {line[:20].strip(): line[20:].split()[::2] for line in shown}
        for place, least in ((0, 1.0), (1, 1.005)):
            of = {name: float(even[name][place]) for name in WHOLE}
            best = of.pop("frontier")
            assert min(of.values()) > least * best, (title, place)


def test_on_stand_ins_for_real_data_the_forecast_and_the_oracle_are_told_apart(tmp_path):
    random = np.random.default_rng(7)
    words = random.choice(2_000, size=40_000, p=zipf(2_000, 0.5))
    (tmp_path / "words.txt").write_text("".join(f"w{n}\n" for n in words))
    data = read_series(str(tmp_path / "words.txt"), ["line"], rows=8_000)
    found = real_data.measure(data, 10)
    assert set(found) == {*WHOLE, *(f"{name}, {other}" for name, other, *_ in real_data.VARIANTS)}
    assert found["frontier, oracle"][0] < 1.01 < found["frontier"][0] < found["uniform"][0]
    assert found["frontier, aim 1.05"][1] < found["frontier, learned"][1]
    assert found["uniform"][1] == 0
    assert set(real_data.measure(data, 20, variants=False)) == set(WHOLE)
    # A forecast is not the window learned; whether it helps a rival, real data say.
    assert all(found[name] != found[f"{name}, forecast"] for name in ("elb", "flux", "sbk"))
