"""The dashboard and the alerts name metrics and labels that are served, and Prometheus's own tool accepts what we write."""

import asyncio
import json
import re
import shutil
import subprocess
from collections import Counter
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families as parse_plain

from router.contract.caller import Caller
from router.contract.exchange import Part
from router.contract.keys import KeyRing
from router.contract.rights import Rights
from router.contract.target import LimitWindow, Quota
from router.edge.control.metrics import Figures
from router.edge.control.panel import Asked
from router.edge.control.savings import Looks
from router.jobs.jobs import read_figures
from router.loop.supervisor import restarts
from router.sessions.ended_jobs import EndedJobs
from router.stores.sqlite.jobs import MemoryJobs
from router.telemetry.metric_table import TABLE, Kind
from tests.tools.edge import FakePlan, FakeRoad
from tests.tools.exchanges import make_decided, make_exchange
from tests.tools.kept import make_recorded
from tests.tools.values import make_target

DEPLOY = Path(__file__).resolve().parents[1] / "docs" / "deploy"
ALERTS, DASHBOARD = DEPLOY / "alerts.yaml", DEPLOY / "grafana.json"
OURS = {"job", "instance"}
"""Labels that Prometheus itself puts on every series."""
PARTS = ("_bucket", "_sum", "_count")


class Rows:
    waiting_rows, lost = 0, 0


class FakeBudgets:
    def used_part(self, caller):
        return 0.5


SHARED = SimpleNamespace(
    replicas=3,
    link=SimpleNamespace(
        is_up=True,
        refusals=SimpleNamespace(current=lambda: None),
        trips=9,
        seconds=0.002,
        losses=1,
        blind=Counter(session=1),
    ),
    unconfirmed=Counter(session=1),
    messages=SimpleNamespace(ignored=Counter(version=1)),
    forwarder=SimpleNamespace(lag_seconds=0.4),
)


SAVINGS = {name: {"seconds": 1.0, "usd": 1.0, "turns": 1} for name in ("spent", "all_deep", "saved", "redone")}


@pytest.fixture
async def served(monkeypatch) -> str:
    """What a router serves that has everything: quotas, limits, budgets, a ledger, callers, savings, background jobs and other routers."""
    road = FakeRoad()
    target = make_target(quota=Quota(requests_per_minute=60, max_wait_seconds=5.0))
    road.plan = FakePlan(targets={"spark": target}, keys=KeyRing([], {"ada": Rights(daily_usd=1.0)}))
    road.state.files, road.state.budgets = {"ledger": Rows()}, FakeBudgets()
    road.state.live.limits.told["spark", 0] = (LimitWindow(900.0, 60.0, counts_prompt=True),)
    road.state.shared = SHARED
    road.state.observers.switch(Part.METRICS, on=True)
    road.state.metrics.follow(["spark"], callers=True)
    monkeypatch.setitem(restarts, "watch keys", 1)
    exchange = make_exchange(road.state.metrics)
    exchange.note(make_decided())
    exchange.note(make_recorded(caller="ada", key="00000001"))
    store = MemoryJobs(keep_seconds=60.0)
    jobs = SimpleNamespace(store=store, ended=EndedJobs())
    figures = Figures(road, Looks(lambda since, caller: SAVINGS), jobs=partial(read_figures, jobs))
    answer = await figures.pages[0].answer(Asked("req_test", Caller("boss"), {}, {}, {}, None))
    await store.close()
    return answer.body.decode()


@pytest.fixture
def labels_of(served) -> dict[str, set[str]]:
    """The labels of every series that is served, by its name."""
    found: dict[str, set[str]] = {}
    for sample in (sample for family in parse_plain(served) for sample in family.samples):
        found.setdefault(sample.name, set()).update(sample.labels)
    return found


def dashboard_panels() -> list[dict]:
    return [panel for panel in json.loads(DASHBOARD.read_text())["panels"] if panel["type"] != "row"]


def expressions() -> list[tuple[str, str]]:
    """Every expression of both files, with the words that may name its labels: a legend, or the text of an alert."""
    found = [(target["expr"], target["legendFormat"]) for panel in dashboard_panels() for target in panel["targets"]]
    for variable in json.loads(DASHBOARD.read_text())["templating"]["list"]:
        if variable["type"] == "query":
            found.append((variable["definition"], ""))
    for rule in (rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]):
        words = " ".join(rule["annotations"].values())
        found.append((rule["expr"], " ".join(f"{{{{{name}}}}}" for name in re.findall(r"\$labels\.(\w+)", words))))
    return found


def labels_in(expression: str, words: str) -> set[str]:
    grouped = (name.strip() for names in re.findall(r"\bby \(([^)]*)\)", expression) for name in names.split(","))
    matched = re.findall(r'(\w+)(?:=~|!=|!~|=)"', expression)
    return {*grouped, *matched, *re.findall(r"{{(\w+)}}", words)} - {"", "__auto"}


async def test_every_metric_of_the_table_is_served_with_its_labels_and_nothing_else_is(labels_of):
    listed = {}
    for metric in TABLE:
        names = [f"{metric.name}{part}" for part in PARTS] if metric.kind is Kind.HISTOGRAM else [metric.name]
        for name in names:
            listed[name] = {*metric.labels, *({"le"} if name.endswith("_bucket") else ())}

    assert labels_of == listed


async def test_every_metric_and_label_of_the_dashboard_and_the_alerts_is_served(labels_of, subtests):
    for expression, words in expressions():
        with subtests.test(expression=expression):
            named = re.findall(r"\btandem_\w+", expression)
            assert named
            assert set(named) <= set(labels_of)
            allowed = set.union(*(labels_of[name] for name in named)) | OURS
            assert labels_in(expression, words) <= allowed


def test_the_check_would_find_a_label_that_is_not_there():
    assert labels_in('sum by (tier, le) (rate(tandem_x{job=~"$job", outcome!="SERVED"}[5m]))', "{{target}}") == {
        "tier",
        "le",
        "job",
        "outcome",
        "target",
    }


def test_the_dashboard_shows_every_metric_that_every_router_has():
    shown = " ".join(expression for panel in dashboard_panels() for expression in [t["expr"] for t in panel["targets"]])

    assert {metric.name for metric in TABLE if not re.search(rf"{metric.name}\b|{metric.name}_bucket", shown)} == {
        "tandem_caller_requests_total",
        "tandem_caller_tokens_total",
        "tandem_budget_refusals_total",
    }


def test_no_two_panels_of_the_dashboard_overlap_or_share_an_id():
    panels = json.loads(DASHBOARD.read_text())["panels"]
    taken: set[tuple[int, int]] = set()
    for place in (panel["gridPos"] for panel in panels):
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
        assert not cells & taken
        assert place["x"] + place["w"] <= 24
        taken |= cells

    assert len({panel["id"] for panel in panels}) == len(panels)


@pytest.fixture
def promtool():
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("promtool is not installed: Debian's package prometheus brings it")
    return found


async def test_promtool_finds_nothing_in_what_is_served(promtool, served):
    done = await asyncio.to_thread(subprocess.run, [promtool, "check", "metrics"], input=served, capture_output=True, text=True)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_promtool_finds_nothing_in_the_alerts(promtool):
    done = subprocess.run([promtool, "check", "rules", str(ALERTS)], capture_output=True, text=True)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "SUCCESS: 7 rules found" in done.stdout


FIRING = {
    "TandemLedgerLosesRows": ({"tandem_ledger_lost_rows_total": "0x10 3x10"}, {}),
    "TandemTierRests": (
        {
            'tandem_circuit_open{tier="fast", target="a"}': "1x20",
            'tandem_circuit_open{tier="fast", target="b"}': "1x20",
            'tandem_circuit_open{tier="deep", target="c"}': "1x20",
            'tandem_circuit_open{tier="deep", target="d"}': "0x20",
        },
        {"tier": "fast"},
    ),
    "TandemBudgetSpent": ({"tandem_budget_refusals_total": "0x10 1x10"}, {}),
    "TandemBudgetNear": ({"tandem_highest_budget_use_ratio": "0.95x20"}, {}),
    "TandemOverheadHigh": (
        {
            'tandem_overhead_seconds_bucket{le="0.05"}': "0+90x20",
            'tandem_overhead_seconds_bucket{le="0.1"}': "0+100x20",
            'tandem_overhead_seconds_bucket{le="+Inf"}': "0+100x20",
        },
        {},
    ),
    "TandemQueueOverMaxWait": (
        {
            'tandem_queue_wait_seconds{tier="fast", target="a"}': "9x20",
            'tandem_queue_max_wait_seconds{tier="fast", target="a"}': "5x20",
            'tandem_queue_wait_seconds{tier="fast", target="b"}': "9x20",
        },
        {"tier": "fast", "target": "a"},
    ),
    "TandemStoreAway": (
        {'tandem_store_up{store="valkey"}': "1x5 0x15", 'tandem_store_up{store="postgres"}': "1x20"},
        {"store": "valkey"},
    ),
}


def test_each_alert_fires_once_for_what_it_is_for_and_for_nothing_else(promtool, tmp_path):
    rules = {rule["alert"]: rule for rule in yaml.safe_load(ALERTS.read_text())["groups"][0]["rules"]}
    assert set(FIRING) == set(rules)
    tests = []
    for firing, (series, labels) in FIRING.items():
        expected = [{"exp_labels": {**labels, **rules[firing]["labels"]}}]
        tests.append(
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": values} for name, values in series.items()],
                "alert_rule_test": [
                    {"eval_time": "18m", "alertname": name, "exp_alerts": expected if name == firing else []} for name in rules
                ],
            }
        )
    plain = yaml.safe_load(ALERTS.read_text())
    for rule in plain["groups"][0]["rules"]:
        del rule["annotations"]  # promtool would compare the words too
    (tmp_path / "alerts.yaml").write_text(yaml.safe_dump(plain))
    (tmp_path / "test.yaml").write_text(yaml.safe_dump({"rule_files": ["alerts.yaml"], "tests": tests}))

    done = subprocess.run([promtool, "test", "rules", "test.yaml"], capture_output=True, text=True, cwd=tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr
