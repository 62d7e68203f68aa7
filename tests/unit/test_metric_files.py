"""The alert rules and the dashboard: Prometheus can read their expressions, and what they ask for exists."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml

from orihon.reports.metrics.families import FAMILIES
from tests.helpers import Rule

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy" / "prometheus-rules.yaml"
DASHBOARD = ROOT / "deploy" / "grafana-dashboard.json"
DURATION = re.compile(r"(\d+(ms|[smhdwy]))+")
FIELD = re.compile(r"{{(.*?)}}")
#: What an annotation may say of a value: these functions exist in Prometheus's templates.
FUNCTIONS = {"humanize", "humanize1024", "humanizeDuration", "humanizePercentage"}
GRID = 24


def rules() -> list[dict[str, Any]]:
    loaded = yaml.safe_load(RULES.read_text(encoding="utf-8"))
    assert set(loaded) == {"groups"}
    groups: list[dict[str, Any]] = loaded["groups"]
    assert len({group["name"] for group in groups}) == len(groups)
    assert all(set(group) <= {"name", "interval", "rules"} for group in groups)
    return [rule for group in groups for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    return found


def targets() -> list[str]:
    """The expressions of the dashboard, with what Grafana puts in for its variables."""
    expressions = [target["expr"] for panel in panels() for target in panel.get("targets", ())]
    return [expression.replace("$__rate_interval", "5m") for expression in expressions]


def selectors(expression: str) -> Iterator[promql_parser.VectorSelector]:
    """Every metric that an expression asks for."""
    found: list[promql_parser.VectorSelector] = []

    def look(node: Any) -> None:
        if isinstance(node, promql_parser.VectorSelector):
            found.append(node)
        elif isinstance(node, promql_parser.MatrixSelector):
            found.append(node.vector_selector)

    promql_parser.walk(promql_parser.parse(expression), look)
    yield from found


def series_names() -> dict[str, set[str]]:
    """Names as they stand in the output, and the labels that each may have."""
    names: dict[str, set[str]] = {}
    for family in FAMILIES:
        if family.kind == "histogram":
            names |= {f"{family.name}_bucket": {"le"}, f"{family.name}_sum": set(), f"{family.name}_count": set()}
        else:
            names[family.name] = set(family.labels)
    return names


def test_what_an_expression_asks_for_is_among_the_metrics() -> None:
    names = series_names()
    with Rule() as all_of_them:
        for expression in [*(rule["expr"] for rule in rules()), *targets()]:
            with all_of_them.case(expression):
                asked = list(selectors(expression))
                assert asked
                for selector in asked:
                    assert selector.name in names
                    assert {matcher.name for matcher in selector.matchers.matchers} <= names[selector.name or ""]


@pytest.mark.parametrize("wrong", ["sum(", "rate(orihon_tasks)[5m]", "orihon_tasks{status=}", "1 +"])
def test_a_wrong_expression_would_be_found(wrong: str) -> None:
    with pytest.raises(ValueError):
        promql_parser.parse(wrong)


def test_rules_are_complete_and_have_names_of_their_own() -> None:
    found = rules()
    assert len({rule["alert"] for rule in found}) == len(found)
    for rule in found:
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert "for" not in rule or DURATION.fullmatch(rule["for"])
        assert set(rule["annotations"]) == {"summary", "description"}
        for template in FIELD.findall(rule["annotations"]["description"]):
            value, *functions = (part.strip() for part in template.split("|"))
            assert re.fullmatch(r"\$value|\$labels\.[a-z_]+", value)
            assert set(functions) <= FUNCTIONS


def test_the_rules_of_the_first_design_are_among_them() -> None:
    found = {rule["alert"]: rule for rule in rules()}
    disk, failures = found["ContextStorageHighDiskUsage"], found["ContextCompressionFailureRate"]
    assert (disk["expr"], disk["for"]) == ("sum(context_db_size_bytes) > 50 * 1024 * 1024 * 1024", "10m")
    assert (failures["expr"], failures["for"]) == ("rate(context_compression_failures_total[5m]) > 0.1", "5m")


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed (apt install prometheus)")
def test_promtool_takes_the_rules() -> None:
    run = subprocess.run(["promtool", "check", "rules", str(RULES)], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def test_the_dashboard_has_the_parts_that_grafana_wants() -> None:
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    assert dashboard["schemaVersion"] >= 30
    (variable,) = dashboard["templating"]["list"]
    assert (variable["name"], variable["type"], variable["query"]) == ("datasource", "datasource", "prometheus")
    shown = panels()
    assert len({panel["id"] for panel in shown}) == len(shown)
    for panel in shown:
        assert panel["title"]
        if panel["type"] != "row":
            assert panel["datasource"]["uid"] == "${datasource}"
            assert [target["refId"] for target in panel["targets"]] == list("ABCDE"[: len(panel["targets"])])


def test_no_two_panels_of_the_dashboard_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in panels():
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= GRID
        cells = {
            (column, line)
            for column in range(place["x"], place["x"] + place["w"])
            for line in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells


def test_every_metric_is_on_the_dashboard_or_named_in_both_pages() -> None:
    for page in ("docs/metrics.md", "docs/ja/metrics.md"):
        written = (ROOT / page).read_text(encoding="utf-8")
        assert [family.name for family in FAMILIES if f"`{family.name}`" not in written] == []
        assert [rule["alert"] for rule in rules() if f"`{rule['alert']}`" not in written] == []
