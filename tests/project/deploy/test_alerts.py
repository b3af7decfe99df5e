"""Rules and dashboard of docs/how-to/operate/alerts.md: each rule fires where the page says."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.alerts.promql import file_text, fires, rules
from tests.support.docs.readme import ROOT

PAGE = ROOT / "docs" / "how-to" / "operate" / "alerts.md"
DASHBOARD = ROOT / "deploy" / "grafana" / "evenkeel.json"
GAUGE = "airflow_evenkeel_sales_"
#: By how much a value is over its threshold, as a part of it: less than the page's figures show.
OVER = 1e-6


def thresholds() -> dict[str, str]:
    """What the page's table says of when to tell somebody, by metric."""
    table = PAGE.read_text().partition("## 5. Thresholds")[2].partition("## 6.")[0]
    return dict(re.findall(r"^\| `(\w+)` \| ([^|]*) \|", table, re.M))


def number(text: str, pattern: str) -> float:
    found = re.search(pattern, text)
    assert found is not None, (text, pattern)
    return float(found[1].replace(",", ""))


def bounds() -> dict[str, dict[str, float]]:
    """Values of gauges at each rule's threshold: the first is what must be over it.

    They come from the page's spec and table, not from its rules.
    """
    told = thresholds()
    limit = yaml.safe_load(file_text(PAGE, "tables/sales.yaml"))["max_imbalance"]
    assert told["floor"].startswith("over `max_imbalance`")
    planned = number(told["bytes_written"], r"over ([\d,]+) MB") * 1e6
    times = number(told["bytes_written"], r"^([\d.]+) times `bytes_planned`")
    return {
        "GateFailed": {"gate_failures": number(told["gate_failures"], r"^over (\d)")},
        "RolledBack": {"rolled_back": number(told["rolled_back"], r"^over (\d)")},
        "HalfMoved": {"half_moved": number(told["half_moved"], r"^over (\d)")},
        "Uneven": {
            "imbalance_after": limit
            + number(told["imbalance_after"], r"^([\d.]+) over `max_imbalance`")
        },
        "KeyTooHeavy": {"floor": limit},
        "WritesTooMuch": {"bytes_written": times * planned, "bytes_planned": planned},
        "TooSlow": {
            "seconds_migrate_sales": number(told["seconds_migrate_TABLE"], r"such as ([\d,]+)")
        },
    }


def gauges(values: dict[str, float], over: bool) -> dict[str, float]:
    first, *rest = values
    at = values[first]
    raised = {first: max(at * (1 + OVER), at + OVER) if over else at}
    return {f"{GAUGE}{n}": v for n, v in (raised | {n: values[n] for n in rest}).items()}


def cases() -> list[tuple[str, dict[str, float], bool]]:
    """An alert, values of gauges, and whether the alert fires by them."""
    sides = [(a, gauges(v, over), over) for a, v in bounds().items() for over in (False, True)]
    # A table so small that files weigh more than rows: no reason to wake anybody.
    small = {f"{GAUGE}bytes_written": 1e8, f"{GAUGE}bytes_planned": 1.0}
    no_plan = {f"{GAUGE}bytes_written": 1e9}
    return [*sides, ("WritesTooMuch", small, False), ("WritesTooMuch", no_plan, False)]


def test_each_rule_fires_over_the_threshold_of_the_table_and_not_at_it() -> None:
    found = rules(PAGE)
    assert set(found) == set(bounds())
    wrong = [
        (alert, values) for alert, values, fire in cases() if fires(found[alert], values) != fire
    ]
    assert not wrong
    assert not any(fires(expression, {}) for expression in found.values())


@pytest.mark.parametrize("expression", ["up", "a > 1 or b > 1", "rate(a) > 1", "a > 1 > b"])
def test_what_is_not_evaluated_is_refused(expression: str) -> None:
    with pytest.raises(ValueError, match="expected a"):
        fires(expression, {"a": 2.0, "b": 2.0})


def panels() -> list[dict[str, Any]]:
    return list(json.loads(DASHBOARD.read_text())["panels"])


def expressions() -> list[str]:
    return [target["expr"] for panel in panels() for target in panel["targets"]]


def test_the_dashboard_has_the_panels_of_the_page() -> None:
    shown = PAGE.read_text().partition("## 6. A dashboard")[2].partition("## 7.")[0]
    told = {
        title: set(re.findall(r"`(\w+)`", what))
        for title, what in re.findall(r"^\| ([^|]*\?) \| ([^|]*) \|", shown, re.M)
    }
    drawn = {}
    for panel in panels():
        names = re.findall(r"\$\{table\}_(\w+?)(?:\[|\.\+)", str(panel["targets"]))
        assert len(names) == len(panel["targets"])
        drawn[panel["title"]] = {re.sub("migrate_$", "migrate_TABLE", name) for name in names}
    assert len(told) == 4 and drawn == told
    reference = (ROOT / "docs/reference/metrics.md").read_text()
    known = set(re.findall(r"^\| `(\w+)`", reference, re.M))
    assert set().union(*drawn.values()) <= known
    kinds = [(p["type"], p["fieldConfig"]["defaults"].get("custom")) for p in panels()]
    assert [kind for kind, _ in kinds] == ["timeseries"] * 3 + ["state-timeline"]
    lines, bars, stacked = (custom for _, custom in kinds[:3])
    assert (lines["drawStyle"], bars["drawStyle"]) == ("line", "bars")
    assert stacked["stacking"]["mode"] == "normal"


def test_the_dashboard_asks_for_a_table_by_the_names_of_its_gauges() -> None:
    made = json.loads(DASHBOARD.read_text())
    source, table = made["templating"]["list"]
    own = {"type": "prometheus", "uid": f"${{{source['name']}}}"}
    asked = [table, *made["panels"], *(t for p in made["panels"] for t in p["targets"])]
    assert source["type"] == "datasource" and all(a["datasource"] == own for a in asked)
    (names,) = re.findall(r"^metrics\((.+)\)$", table["query"])
    picked = re.compile(table["regex"].strip("/"))
    heard = ["airflow_evenkeel_sales_imbalance_after", "airflow_evenkeel_a_b_imbalance_after"]
    assert [re.fullmatch(names, one) and picked.match(one)[1] for one in heard] == ["sales", "a_b"]
    assert not re.fullmatch(names, "airflow_evenkeel_sales_floor")
    assert table["name"] == "table" and len({p["id"] for p in panels()}) == 4


@pytest.mark.skipif(
    shutil.which("promtool") is None,
    reason="no promtool on the PATH; 2.42 of Debian's package prometheus has passed",
)
def test_promtool_finds_the_same(tmp_path: Path) -> None:
    """The rules, and the dashboard's queries for the table `sales`, in Prometheus's own tool."""
    (tmp_path / "alerts.yaml").write_text(file_text(PAGE, "alerts.yaml"))
    tests: list[dict[str, Any]] = [
        {
            "interval": "1m",
            "input_series": [{"series": n, "values": repr(v)} for n, v in values.items()],
            "alert_rule_test": [
                {"eval_time": "0m", "alertname": alert, "exp_alerts": [{}] if fire else []}
            ],
        }
        for alert, values, fire in cases()
    ]
    for expression in expressions():
        asked = expression.replace("${table}", "sales")
        (name,) = re.findall(rf"{GAUGE}\w+", asked)
        series = f"{name}sales" if "=~" in asked else name
        # Hours later it is still drawn; a day later it is not.
        results = [
            {"eval_time": "20h", "expr": asked, "exp_samples": [{"labels": series, "value": 7}]},
            {"eval_time": "25h", "expr": asked, "exp_samples": []},
        ]
        given = [{"series": series, "values": "7"}]
        tests.append({"interval": "1m", "input_series": given, "promql_expr_test": results})
    file = tmp_path / "alerts_test.yaml"
    file.write_text(yaml.safe_dump({"rule_files": ["alerts.yaml"], "tests": tests}))
    for words in (("check", "rules", "alerts.yaml"), ("test", "rules", file.name)):
        done = subprocess.run(["promtool", *words], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
