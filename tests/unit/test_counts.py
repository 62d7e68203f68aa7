"""Counting for the metrics: names as Prometheus reads them, buckets, nothing lost on the way."""

from __future__ import annotations

import threading
import unicodedata
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from orihon import TaskContextManager, TaskKey
from orihon.catalogue import Catalogue
from orihon.reports.metrics.families import FAMILIES, Sample, counted, written
from orihon.system.counters import BOUNDS, COMPRESSION_SECONDS, MESSAGES, MODEL_CALLS, TOOL_CALLS, Counts, series
from orihon.tasks.metrics import TaskCounts
from tests.catalogues import CataloguePlace
from tests.helpers import raw_database

LONGEST = 120


def parsed(text: str) -> dict[str, dict[str, float]]:
    """What Prometheus's own client makes of a text: samples by family, each as ``name{labels}``."""
    found: dict[str, dict[str, float]] = {}
    for family in text_string_to_metric_families(text):
        samples = {series(sample.name, dict(sorted(sample.labels.items()))): sample.value for sample in family.samples}
        found[family.name] = samples
    return found


@given(st.text(), st.text())
def test_any_text_can_be_a_label(one: str, other: str) -> None:
    sample = Sample.of(MODEL_CALLS, 3, model=one, purpose=other)
    (family,) = [
        family for family in text_string_to_metric_families(written([sample])) if family.name + "_total" == MODEL_CALLS
    ]
    (read,) = family.samples
    for name, given_text in (("model", one), ("purpose", other)):
        short = given_text[:LONGEST].encode("utf-8", "replace").decode()
        clean = "".join(" " if unicodedata.category(each) == "Cc" and each != "\n" else each for each in short)
        assert read.labels[name] == clean
    assert read.value == 3


@given(st.lists(st.floats(0, 1000), max_size=30))
def test_durations_come_to_cumulative_buckets(durations: list[float]) -> None:
    counts = Counts()
    for seconds in durations:
        counts.observe(COMPRESSION_SECONDS, seconds)
    found = parsed(written(counted(counts.take())))[COMPRESSION_SECONDS]
    for bound in BOUNDS:
        expected = sum(seconds <= bound for seconds in durations)
        assert found[series(f"{COMPRESSION_SECONDS}_bucket", {"le": f"{bound:g}"})] == expected
    assert found[f"{COMPRESSION_SECONDS}_count"] == len(durations)
    assert found[series(f"{COMPRESSION_SECONDS}_bucket", {"le": "+Inf"})] == len(durations)
    assert found[f"{COMPRESSION_SECONDS}_sum"] == pytest.approx(sum(durations), abs=1e-6 * (len(durations) + 1))


def test_what_is_taken_can_be_given_back() -> None:
    counts = Counts()
    counts.add(TOOL_CALLS, 2, status="success")
    counts.add(TOOL_CALLS, 0, status="error")
    taken = counts.take()
    assert taken == {'orihon_tool_calls_total{status="success"}': 2}
    assert counts.take() == {}
    counts.add(TOOL_CALLS, status="success")
    counts.give_back(taken)
    assert counts.take() == {'orihon_tool_calls_total{status="success"}': 3}


def test_several_threads_lose_nothing() -> None:
    counts = Counts()

    def count() -> None:
        for _ in range(2000):
            counts.add(TOOL_CALLS, status="success")

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(counts.take().values()) == 8000


def test_every_family_says_what_it_is_and_has_its_own_name() -> None:
    assert len({family.name for family in FAMILIES}) == len(FAMILIES)
    for family in FAMILIES:
        assert family.help.endswith(".")
        assert family.name.endswith("_total") == (family.kind == "counter")
        assert family.name.startswith(("context_", "orihon_"))


def test_what_can_fail_stands_at_zero_from_the_beginning() -> None:
    found = parsed(written(counted({})))
    assert found["context_compression_failures"] == {
        'context_compression_failures_total{reason="error"}': 0,
        'context_compression_failures_total{reason="model"}': 0,
    }
    assert found["orihon_take_overs"] == {"orihon_take_overs_total": 0}


def test_counters_add_up_over_processes(place: CataloguePlace) -> None:
    place.base_dir.mkdir()
    with closing(place.open()) as one, closing(place.open()) as other:
        one.counters.add({"a": 1, "b": 2})
        other.counters.add({"b": 3, "c": 4})
        assert one.counters.all() == {"a": 1, "b": 5, "c": 4}


def test_counters_that_cannot_be_written_wait_for_the_next_time(tmp_path: Path) -> None:
    database = tmp_path / "counters.db"
    hurried = Catalogue(database, timeout=0.05, max_retries=0)
    with TaskContextManager(tmp_path, TaskKey("github", "a", "b", "issue", "1")) as context, closing(hurried):
        counts = TaskCounts(hurried, context.task_store, 'git"hub')
        context.message_store.add_message("user", "Hello.")
        with raw_database(database) as somebody_else:
            somebody_else.execute("BEGIN IMMEDIATE")
            counts.write()
            somebody_else.execute("ROLLBACK")
        assert MESSAGES not in str(hurried.counters.all())
        context.message_store.add_message("user", "Again.")
        counts.write()
        found = hurried.counters.all()
        assert {name: n for name, n in found.items() if MESSAGES in name} == {
            f'{MESSAGES}{{task_source="git\\"hub",role="user"}}': 2
        }


def test_a_database_of_its_own_size(place: CataloguePlace) -> None:
    place.base_dir.mkdir()
    with closing(place.open()) as catalogue:
        assert isinstance(catalogue, Catalogue)
        assert catalogue.statistics.database_bytes() > 10_000
