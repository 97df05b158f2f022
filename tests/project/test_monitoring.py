"""What deploy/monitoring shows and alerts on is what the programs count, and every alert leads to a page that helps."""

import json
import re
import subprocess
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families
from service_jobs import Metrics
from service_jobs.queries import QueueHealth
from service_jobs.schedules import Schedule, StoredSchedule

from bpc.api.http.health_checks import ReadinessReport, build_disk_metrics, build_metrics
from bpc.api.http.telemetry import HttpMetrics
from bpc.runtime.settings import Settings
from bpc.storage.backup import record_last_backup
from bpc.worker.monitoring import PipelineMetrics, render_build_info
from tests.debian_packages import fetch_program

ROOT = Path(__file__).resolve().parents[2]
MONITORING = ROOT / "deploy" / "monitoring"
RULES = yaml.safe_load((MONITORING / "alerts.yaml").read_text())
ALERTS: list[dict[str, Any]] = [rule for group in RULES["groups"] for rule in group["rules"]]
DASHBOARD: dict[str, Any] = json.loads((MONITORING / "dashboard.json").read_text())
PANELS: list[dict[str, Any]] = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
SHOWN = [(panel["title"], target["expr"]) for panel in PANELS for target in panel["targets"]]
RUNBOOKS = (ROOT / "docs" / "operations.md").read_text()
PAGE = (ROOT / "docs" / "observability.md").read_text()

OF_PROMETHEUS = {"job", "instance", "le"}  # labels that it adds, or that every histogram has
# Figures of others that we look at, with the labels they have: of kube-state-metrics, for what a cluster starts for us.
OF_OTHERS = {
    "up": OF_PROMETHEUS,
    "kube_cronjob_created": {"namespace", "cronjob"},
    "kube_cronjob_status_last_successful_time": {"namespace", "cronjob"},
}
SELECTOR = re.compile(r"\b(?P<name>(?:bpc|kube)_[a-z_]+|up)\b(?:\{(?P<labels>[^}]*)\})?")
GROUPED = re.compile(r"\b(?:by|without)\s*\(([^)]*)\)")
SUFFIX = re.compile(r"_(bucket|count|sum)$")


def collect_exported(tmp_path: Path) -> dict[str, tuple[str, frozenset[str]]]:
    """Every figure there is, as the programs' own registries describe it: its kind, and its labels."""
    http, jobs = HttpMetrics(), Metrics("bpc")
    http.record_answer("GET", "/v1/facts", 200, 0.1)
    jobs.expect_types(["report"])
    PipelineMetrics(jobs.registry)
    families: list[Metric] = [*http.registry.collect(), *jobs.registry.collect()]
    families += text_string_to_metric_families(render_build_info("b").decode())
    families += _export_installation_metrics(tmp_path)
    families_found: dict[str, tuple[str, frozenset[str]]] = {}
    for family in families:
        name = f"{family.name}_total" if family.type == "counter" else family.name
        kind, name = ("gauge", f"{name}_info") if family.type == "info" else (family.type, name)
        labels = frozenset(label for sample in family.samples for label in sample.labels) - {"le"}
        assert family.samples, f"{name} shows nothing here: give it something to show"
        assert families_found.setdefault(name, (kind, labels)) == (kind, labels), name
    return families_found


def _export_installation_metrics(data_dir: Path) -> list[Metric]:
    now = datetime(2027, 1, 1, tzinfo=UTC)
    jobs = QueueHealth(depth=1, active=1, stale=0, oldest_seconds=1.0, workers=1, unhandled={"report": 1})
    ready = ReadinessReport(database="OK", migrations="OK", queue="OK", workers="OK", jobs=jobs, needs_queue=False)
    plan = Schedule(name="nightly", cron="47 1 * * *", type="report", payload="{}")
    nightly = StoredSchedule(schedule=plan, paused=False, last_at=now, next_at=now, created_at=now)
    record_last_backup(data_dir, now)
    return [*build_metrics("b", ready, [nightly]), *build_disk_metrics(Settings(data_dir=data_dir))]


@pytest.fixture
def exported_metrics(tmp_path: Path) -> dict[str, tuple[str, frozenset[str]]]:
    return collect_exported(tmp_path)


def find_family(name: str, known: Iterable[str]) -> str:
    return name if name in known else SUFFIX.sub("", name)


def find_wrong_names(expression: str, figures: dict[str, tuple[str, frozenset[str]]]) -> list[str]:
    """What an expression names that nobody exports."""
    wrong, known_labels = [], set(OF_PROMETHEUS)
    for match in SELECTOR.finditer(expression):
        name = find_family(match["name"], figures)
        if name not in figures and name not in OF_OTHERS:
            wrong.append(match["name"])
            continue
        labels = (OF_OTHERS[name] if name in OF_OTHERS else figures[name][1]) | OF_PROMETHEUS
        known_labels |= labels
        selected = re.findall(r"([a-z_]+)\s*[=!]", match["labels"] or "")
        wrong += [f"{name}{{{label}}}" for label in selected if label not in labels]
    grouped = [label.strip() for group in GROUPED.findall(expression) for label in group.split(",")]
    return wrong + [f"by ({label})" for label in grouped if label not in known_labels]


def test_the_dashboard_shows_what_the_programs_count(exported_metrics: dict[str, tuple[str, frozenset[str]]]) -> None:
    assert [
        (title, wrong) for title, expression in SHOWN if (wrong := find_wrong_names(expression, exported_metrics))
    ] == []


def test_the_alerts_look_at_what_the_programs_count(exported_metrics: dict[str, tuple[str, frozenset[str]]]) -> None:
    assert [
        (alert["alert"], wrong) for alert in ALERTS if (wrong := find_wrong_names(alert["expr"], exported_metrics))
    ] == []


def test_a_metric_or_label_that_is_not_exported_is_reported(
    exported_metrics: dict[str, tuple[str, frozenset[str]]],
) -> None:
    wrong = find_wrong_names(
        'sum by (color) (bpc_compiles_total{result="FAILED", tenant="x"}) / bpc_compile_total', exported_metrics
    )
    foreign = find_wrong_names('kube_cronjob_created{cronjob="x", name="y"} / kube_pod_created', exported_metrics)

    assert wrong == ["bpc_compiles_total{tenant}", "bpc_compile_total", "by (color)"]
    assert foreign == ["kube_cronjob_created{name}", "kube_pod_created"]


def test_every_figure_is_shown_or_alerted_on(exported_metrics: dict[str, tuple[str, frozenset[str]]]) -> None:
    expressions = " ".join([*(expression for _, expression in SHOWN), *(alert["expr"] for alert in ALERTS)])
    used = {find_family(match["name"], exported_metrics) for match in SELECTOR.finditer(expressions)}

    assert sorted(exported_metrics.keys() - used) == []


def test_the_page_lists_every_figure_with_its_kind_and_labels(
    exported_metrics: dict[str, tuple[str, frozenset[str]]],
) -> None:
    rows = re.findall(r"^\| `(bpc_[a-z_]+)` \| (\w+) \| (.*?) \| \S.* \|$", PAGE, re.MULTILINE)
    documented = {name: (kind, frozenset(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}

    assert documented == exported_metrics
    assert len(rows) == len(documented)


# Alerts and their runbooks


def list_anchors(page: str) -> list[str]:
    """The sections of a page, as a link names them."""
    titles = re.findall(r"^#{2,3} (.+)$", page, re.MULTILINE)
    return [re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles]


def read_section(anchor: str) -> str:
    parts = re.split(r"^(?=## )", RUNBOOKS, flags=re.MULTILINE)
    return next(part for part in parts if list_anchors(part)[:1] == [anchor])


@pytest.mark.parametrize("alert", ALERTS, ids=[alert["alert"] for alert in ALERTS])
def test_every_alert_says_how_bad_it_is_and_what_to_do(alert: dict[str, Any]) -> None:
    page, _, anchor = alert["annotations"]["runbook_url"].partition("#")

    assert alert["labels"]["severity"] in {"critical", "warning", "info"}
    assert alert["annotations"]["summary"]
    assert alert["annotations"]["description"]
    assert page == "docs/operations.md"
    assert alert["alert"] in read_section(anchor), f"the section `{anchor}` does not name its alert"


def test_the_runbooks_name_no_alert_that_there_is_not() -> None:
    assert set(re.findall(r"\bBpc[A-Z]\w+", RUNBOOKS)) == {alert["alert"] for alert in ALERTS}


def test_the_rules_for_the_operator_are_the_same() -> None:
    operators = yaml.safe_load((MONITORING / "prometheusrule.yaml").read_text())

    assert (operators["apiVersion"], operators["kind"]) == ("monitoring.coreos.com/v1", "PrometheusRule")
    assert operators["spec"] == RULES


# promtool


@pytest.fixture(scope="session")
def promtool(run_folder: Path) -> str:
    """Prometheus' own checker."""
    return fetch_program(run_folder, "prometheus", "usr/bin/promtool")


def run_checked(*command: str) -> None:
    done = subprocess.run(command, cwd=MONITORING, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_takes_the_rules_and_the_example(promtool: str) -> None:
    run_checked(promtool, "check", "rules", "alerts.yaml")
    run_checked(promtool, "check", "config", "prometheus.yaml")


def test_every_alert_fires_when_it_should_and_only_then(promtool: str) -> None:
    run_checked(promtool, "test", "rules", "alerts_test.yaml")


def test_every_alert_has_a_case_that_fires_and_one_that_is_quiet() -> None:
    fires, quiet = set[str](), set[str]()
    for case in yaml.safe_load((MONITORING / "alerts_test.yaml").read_text())["tests"]:
        for alert_case in case["alert_rule_test"]:
            (fires if alert_case["exp_alerts"] else quiet).add(alert_case["alertname"])

    assert fires == quiet == {alert["alert"] for alert in ALERTS}


def test_the_figures_are_written_as_prometheus_wants_them(
    promtool: str, exported_metrics: dict[str, tuple[str, frozenset[str]]]
) -> None:
    text = "".join(
        f"# HELP {SUFFIX.sub('', name)} What it says.\n# TYPE {name} {kind}\n{name} 1\n"
        for name, (kind, _) in exported_metrics.items()
        if kind != "histogram"
    )
    done = subprocess.run(
        [promtool, "check", "metrics"], input=text, capture_output=True, text=True, check=False, timeout=60
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


# The dashboard


def test_grafanas_own_schema_reads_the_dashboard_whole() -> None:
    register_default_plugins()

    back = json.loads(JSONEncoder().encode(Dashboard.from_json(DASHBOARD)))

    assert find_differences(DASHBOARD, back) == []


def find_differences(original: Any, back: Any, at: str = "$") -> list[str]:
    """Where what was read back is not what was given; what the schema adds is no loss."""
    if isinstance(original, dict):
        return [
            difference
            for key in original
            for difference in find_differences(original[key], back.get(key, "(lost)"), f"{at}.{key}")
        ]
    if isinstance(original, list) and len(original) == len(back):
        pairs = enumerate(zip(original, back, strict=True))
        return [
            difference
            for number, (one, other) in pairs
            for difference in find_differences(one, other, f"{at}[{number}]")
        ]
    return [] if original == back else [at]


def test_a_misspelt_member_of_the_dashboard_is_found() -> None:
    assert find_differences(
        {"titel": "BPC"}, json.loads(JSONEncoder().encode(Dashboard.from_json({"titel": "BPC"})))
    ) == ["$.titel"]


def test_the_dashboard_can_be_imported_anywhere() -> None:
    sources = {target["datasource"]["uid"] for panel in PANELS for target in panel["targets"]}
    ids = [panel["id"] for panel in DASHBOARD["panels"]]

    assert sources == {"${datasource}"}
    assert {panel["type"] for panel in PANELS} <= {"timeseries", "stat"}  # every Grafana has these
    assert len(ids) == len(set(ids))
    assert [panel["title"] for panel in PANELS if not panel["fieldConfig"]["defaults"].get("unit")] == []
    assert [panel["title"] for panel in DASHBOARD["panels"] if panel["type"] == "row"] == [
        *("Traffic", "Errors", "Latency", "Jobs", "Compiles", "Webhooks", "Database", "Integrity")
    ]


def test_no_panel_lies_over_another() -> None:
    occupied: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not occupied & cells, panel["title"]
        assert at["x"] + at["w"] <= 24
        occupied |= cells
