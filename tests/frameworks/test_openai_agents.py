"""The own tests of the OpenAI Agents SDK with our session in the place of ``SQLiteSession``, and ours besides."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.frameworks.environments import REPOSITORY, counts, failures, run, source_of

HERE = Path(__file__).parent
_SESSION = "tests/memory/test_session.py::test_sqlite_session_"
_COMPACTION = (
    "tests/memory/test_openai_responses_compaction_session.py::TestOpenAIResponsesCompactionSession::test_settled_"
)
#: Each with the reason why it says nothing about a session that is not a table of SQLite.
EXPLAINED = {
    **dict.fromkeys(
        (
            f"{_SESSION}close_closes_worker_thread_connections",
            f"{_SESSION}reaps_connections_from_exited_worker_threads",
            f"{_SESSION}closes_retired_connections_before_the_next_allocation",
            f"{_SESSION}keeps_connections_of_live_worker_threads",
            f"{_SESSION}rollback_failure_evicts_connection",
            f"{_SESSION}close_retries_quarantined_connection",
            f"{_SESSION}post_commit_cancellation_propagates_after_known_outcome[add]",
            f"{_SESSION}post_commit_cancellation_propagates_after_known_outcome[pop]",
            f"{_SESSION}post_commit_cancellation_propagates_after_known_outcome[clear]",
            f"{_COMPACTION}pop_failure_invalidates_response_chain[cancelled]",
            f"{_COMPACTION}pop_failure_invalidates_response_chain[error]",
            f"{_COMPACTION}clear_failure_invalidates_response_chain[cancelled]",
            f"{_COMPACTION}clear_failure_invalidates_response_chain[error]",
        ),
        "counts or breaks the connections that SQLiteSession holds, by their private names",
    ),
    **dict.fromkeys(
        (
            f"{_SESSION}pop_item_skips_corrupt_most_recent",
            f"{_SESSION}pop_item_returns_none_after_dropping_only_corrupt_rows",
            f"{_SESSION}get_items_limit_skips_corrupt_newest_rows",
            f"{_SESSION}get_items_session_settings_limit_skips_corrupt_rows",
            f"{_SESSION}failed_clear_session_rolls_back",
            f"{_SESSION}failed_pop_item_releases_write_lock",
        ),
        "writes rows or triggers into the tables of SQLiteSession",
    ),
    f"{_SESSION}file_lock_is_shared_across_instances": "looks at the lock of SQLiteSession by its private name",
    f"{_SESSION}failed_add_items_releases_write_lock": "wants TypeError of json; ours names the field, as a ValueError",
    f"{_SESSION}closed_rejects_empty_add_items": "ours can be used again after close: that only lets go of the task",
}


def test_their_own_sessions(tmp_path: Path) -> None:
    source = source_of("openai_agents", "openai-agents")
    shutil.copytree(source / "tests", tmp_path / "tests")
    shutil.copy(source / "pyproject.toml", tmp_path)
    options = ("-q", "-p", "tests_plugin", "-p", "no:cacheprovider", "--timeout=300", "--tb=short", "-rfE")
    shutil.copy(HERE / "openai_agents_plugin.py", tmp_path / "tests_plugin.py")
    names = (
        *("session", "session_limit", "compaction_suffix", "compaction_model_visibility"),
        *("openai_responses_compaction_session", "session_context_wrapper", "session_persistence_sanitize"),
    )
    suite = [f"tests/memory/test_{name}.py" for name in names]
    paths = {"PYTHONPATH": f"{REPOSITORY / 'src'}:{tmp_path}"}
    ran = run("openai_agents", "-m", "pytest", *options, *suite, cwd=tmp_path, environment=paths)
    assert set(failures(ran.stdout)) == set(EXPLAINED), ran.stdout[-4000:]
    assert counts(ran.stdout)["passed"] >= 260, ran.stdout[-4000:]


def test_ours() -> None:
    checks = str(HERE / "openai_agents_checks.py")
    options = ("-q", "-p", "no:cacheprovider", "--noconftest", "-c", "/dev/null")
    ran = run("openai_agents", "-m", "pytest", *options, checks, cwd=REPOSITORY)
    assert ran.returncode == 0, ran.stdout[-4000:]
