"""Pruning of a view: what is worth most stays, gaps become notes or a notice. Tables are quoted from the design."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orihon.compression.importance import DEFAULT_SCORING, ContentScores, ScoringConfig, content_score
from orihon.compression.notes.extractor import FoldedRun
from orihon.compression.pages import Aim, FoldPlan, NothingToFold, Pages, WhyNot
from orihon.compression.strategies.divisions import exchanges, sessions, topics
from orihon.compression.strategies.prune import Prune, PruneSelection
from orihon.texts import set_language
from orihon.values.message.message import Message
from orihon.values.records import SUMMARY_PREFIX, Fold, Pin
from orihon.values.view import PlannedFold
from tests.pages import checked, message, pages_of, tokens_of, turned, views_with_aims

SELECTIONS: tuple[PruneSelection, ...] = ("importance", "window", "session", "topic")
FILLER = "and so we went on talking of the weather, the sea and the long way home. " * 4


@pytest.fixture
def japanese() -> Iterator[None]:
    set_language("ja")
    yield
    set_language(None)


def folds_of(prune: Prune, pages: Pages, aim: Aim) -> tuple[PlannedFold, ...]:
    plan = prune.plan(pages, aim)
    assert isinstance(plan, FoldPlan)
    assert pages.tokens_after(plan.folds) <= aim.goal
    return plan.folds


def spans(folds: Sequence[PlannedFold]) -> list[tuple[int, int]]:
    return [(fold.start_seq, fold.end_seq) for fold in folds]


def kept_seqs(folds: Sequence[PlannedFold], last: int) -> list[int]:
    return [seq for seq in range(1, last + 1) if not any(fold.start_seq <= seq <= fold.end_seq for fold in folds)]


def chat(count: int, words: str = FILLER) -> list[Message]:
    return [message("user" if at % 2 == 0 else "assistant", f"{at:02}: {words}") for at in range(count)]


def goal_for(pages: Pages, kept: int, *, notices: int) -> int:
    """Room for so many messages of the same size, and for notices."""
    return kept * tokens_of(pages, 0) + 1 + notices * pages.summary_tokens("[Messages omitted here: 99 (10-99)]")


# ---- importance: what stays ------------------------------------------------------------------------------------------

# | Content Type | importance |
KINDS = {
    "ユーザー指示・質問: 高": message("user", "Please add a plan for the settings " + FILLER),
    "ツール実行結果（成功）: 高": message("assistant", "[Tool: run] success " + FILLER),
    "エラーメッセージ: 中～高": message("assistant", "there was an error in the parser " + FILLER),
    "通常の会話: 低": message("assistant", "I look at the sea today, it is blue " + FILLER),
    "システムメッセージ: 低～中": message("system", "nothing has changed for now, it goes on " + FILLER),
}


@pytest.mark.parametrize("kept", range(1, 5))
def test_what_matters_more_stays_longer(kept: int) -> None:
    """Role 30 %, content 40 %. The more important stand further back, and newness does not count here."""
    pages = pages_of([message("user", "hm"), *KINDS.values()])
    room = sum(tokens_of(pages, at) for at in range(kept + 1)) + 1
    prune = Prune(emergency=True, scoring=replace(DEFAULT_SCORING, recency_weight=0.0))
    folds = folds_of(prune, pages, Aim(room + pages.summary_tokens("[Messages omitted here: 9 (1-9)]"), 0, 1))
    assert spans(folds) == [(kept + 2, 6)]


def test_of_equals_the_newer_stays() -> None:
    """Recency (Weight: 30%): 最近のメッセージほど重要."""
    pages = pages_of([message("assistant", FILLER) for _ in range(10)])
    folds = folds_of(Prune(emergency=True), pages, Aim(goal_for(pages, 4, notices=1), 0, 1))
    assert kept_seqs(folds, 10) == [7, 8, 9, 10]


def test_an_important_old_message_stays_among_those_that_go() -> None:
    """単純なFIFO（古い順削除）では重要な文脈が失われる."""
    messages = [message("assistant", FILLER) for _ in range(12)]
    messages[3] = message("user", "[TASK] approval was denied " + FILLER)
    pages = pages_of(messages)
    folds = folds_of(Prune(emergency=True), pages, Aim(goal_for(pages, 4, notices=3), 0, 1))
    assert 4 in kept_seqs(folds, 12)
    assert spans(folds)[0] == (1, 3)


def test_a_smaller_message_is_chosen_when_a_better_one_does_not_fit() -> None:
    """if budget - token_of(msg) > 0: select; the others are tried all the same."""
    pages = pages_of([message("assistant", FILLER), message("assistant", FILLER * 9), message("assistant", FILLER)])
    folds = folds_of(Prune(emergency=True), pages, Aim(goal_for(pages, 2, notices=1), 0, 1))
    assert spans(folds) == [(2, 2)]


def test_a_tool_call_and_its_results_stay_or_go_together() -> None:
    batch = [
        message("assistant", FILLER, calls=["a", "b"]),
        message("tool", FILLER, answers="a"),
        message("tool", "error: approval denied " + FILLER, answers="b"),
    ]
    pages = pages_of([*batch, *(message("assistant", FILLER) for _ in range(9))])
    prune = Prune(emergency=True, scoring=replace(DEFAULT_SCORING, recency_weight=0.0))
    assert kept_seqs(folds_of(prune, pages, Aim(goal_for(pages, 5, notices=1), 0, 1)), 12)[:3] == [1, 2, 3]
    aim = Aim(pages.tokens - tokens_of(pages, 1) // 2, 0, 1)
    assert spans(folds_of(Prune("window", emergency=True), pages, aim)) == [(1, 3)]


def test_own_keywords_count() -> None:
    pages = pages_of(
        [message("assistant", f"{word} {FILLER}") for word in ("kraken", "squid", "squid", "squid", "squid")]
    )
    prune = Prune(emergency=True, scoring=ScoringConfig(recency_weight=0.0, important_keywords=["kraken"]))
    assert 1 in kept_seqs(folds_of(prune, pages, Aim(goal_for(pages, 2, notices=2), 0, 1)), 5)


# ---- gaps ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("removed", "action"),
    [(4, "単純削除"), (5, "要約生成"), (12, "要約生成")],  # 連続削除メッセージ数 >= 5 | 要約生成; < 5 | 単純削除
)
def test_gaps_get_a_summary_from_five_messages_on(removed: int, action: str) -> None:
    pages = pages_of(chat(20, FILLER * 3))
    aim = Aim(pages.tokens - tokens_of(pages, 0) // 2, keep_recent=20 - removed, min_to_compress=1)
    (fold,) = folds_of(Prune("window", window=1), pages, aim)
    assert spans([fold]) == [(1, removed)]
    assert (fold.text == f"[Messages omitted here: {removed} (1-{removed})]") == (action == "単純削除")


def test_the_notice_in_japanese(japanese: None) -> None:
    pages = pages_of([message("assistant", FILLER) for _ in range(3)])
    (fold,) = folds_of(Prune(), pages, Aim(pages.tokens - 1, 0, 1))
    assert fold.text == f"[1件のメッセージが省略されました（{fold.start_seq}）]"


def test_who_has_the_tool_is_told_its_name() -> None:
    pages = replace(pages_of(chat(30)), has_recall=True)
    (fold,) = folds_of(Prune("window", emergency=True), pages, Aim(pages.tokens // 2))
    assert fold.text == f"[Messages omitted here: {fold.end_seq} (context_read 1-{fold.end_seq})]"


def test_an_emergency_has_notices_only() -> None:
    """100%+ | 緊急削除（要約なし）."""
    pages = pages_of(chat(30))
    (fold,) = folds_of(Prune("window", emergency=True), pages, Aim(pages.tokens // 2))
    assert fold.text == f"[Messages omitted here: {fold.end_seq} (1-{fold.end_seq})]"
    (fold,) = folds_of(Prune("window", writer=None), pages, Aim(pages.tokens // 2))
    assert fold.text.startswith("[Messages omitted")


def test_notes_are_lines_of_the_gap_within_half_of_it() -> None:
    messages = chat(30)
    messages[2] = message("user", "The limit must never be more than 512 MB in src/limits.py.")
    messages[28] = message("user", "Now look at src/limits.py again, is it 512 MB?")
    pages = pages_of(messages)
    (fold,) = folds_of(Prune("window"), pages, Aim(pages.tokens // 2 + 8))
    assert "The limit must never be more than 512 MB in src/limits.py." in fold.text
    assert 2 * pages.summary_tokens(fold.text) <= sum(tokens_of(pages, at) for at in range(fold.end_seq))


def test_pinned_lines_are_in_the_fold() -> None:
    pages = pages_of(chat(40), [Pin(2, "01: and so we went on"), Pin(4, "03: and so we went")])
    for prune in (Prune("window"), Prune("window", emergency=True)):
        (fold,) = folds_of(prune, pages, Aim(pages.tokens // 2))
        assert "01: and so we went on" in fold.text
        assert "03: and so we went" in fold.text


def too_long(pages: Pages, runs: Sequence[FoldedRun], room: int) -> list[str]:
    return ["Notes", *(FILLER * 30 for _ in runs[1:])]


def a_title(pages: Pages, runs: Sequence[FoldedRun], room: int) -> list[str]:
    return [f"Notes\n## Part\n{FILLER * 30}" for _ in runs]


def nothing(pages: Pages, runs: Sequence[FoldedRun], room: int) -> list[str]:
    return ["" for _ in runs]


def too_few(pages: Pages, runs: Sequence[FoldedRun], room: int) -> list[str]:
    return []


def broken(pages: Pages, runs: Sequence[FoldedRun], room: int) -> list[str]:
    raise RuntimeError("no writing today")


@pytest.mark.parametrize("writer", [too_long, a_title, nothing, too_few, broken])
def test_a_writer_that_gives_nothing_useful_is_replaced_by_notices(
    writer: object, caplog: pytest.LogCaptureFixture
) -> None:
    pages = pages_of(chat(40), [Pin(10)])
    with caplog.at_level(logging.CRITICAL):
        folds = folds_of(Prune("window", writer=writer), pages, Aim(pages.tokens // 2))  # type: ignore[arg-type]
    assert spans(folds)[0] == (1, 9)
    assert all(fold.text.startswith(("[Messages omitted here:", "Notes")) and len(fold.text) < 40 for fold in folds)


def test_lines_at_the_end_go_when_the_notes_are_too_long() -> None:
    def writer(pages: Pages, runs: Sequence[FoldedRun], room: int) -> list[str]:
        return ["\n".join(["Notes", "## Goal", "the goal", "## Notes", FILLER * 20]) for _ in runs]

    pages = pages_of(chat(30))
    (fold,) = folds_of(Prune("window", writer=writer), pages, Aim(pages.tokens // 2))
    assert fold.text == "Notes\n## Goal\nthe goal"


def test_notes_that_find_no_room_together_become_notices_the_longest_first() -> None:
    def writer(pages: Pages, runs: Sequence[FoldedRun], room: int) -> list[str]:
        return ["long " * 120, "short"]

    pages = pages_of(chat(30), [Pin(11)])
    aim = Aim(pages.tokens - sum(tokens_of(pages, at) for at in (*range(10), *range(11, 20))) + 160)
    folds = folds_of(Prune("window", window=10, writer=writer), pages, aim)
    assert [fold.text for fold in folds] == ["[Messages omitted here: 10 (1-10)]", "short"]


def test_messages_in_earlier_summaries_count() -> None:
    earlier = Fold(1, 1, 20, "## Decisions\n3 user: We use SQLite.", 0, 0)
    pages = turned(pages_of(chat(30)), [earlier])
    (fold,) = folds_of(Prune("window", emergency=True), pages, Aim(goal_for(pages_of(chat(1)), 4, notices=1), 3, 1))
    assert fold.start_seq == 1
    notice = f"[Messages omitted here: {fold.end_seq} (1-{fold.end_seq})]"
    assert fold.text == f"{earlier.text}\n\n{notice}", "what is known of them stays"


def test_gaps_are_large_enough_for_notes() -> None:
    """Of a chat, where the answers count less than what users say, no answer goes by itself."""
    pages = pages_of(chat(40))
    folds = folds_of(Prune(), pages, Aim(pages.tokens * 2 // 3))
    assert all(fold.end_seq - fold.start_seq >= 4 and fold.reason == "importance" for fold in folds)
    assert len(folds) < len(folds_of(Prune(emergency=True), pages, Aim(pages.tokens * 2 // 3)))


def test_what_matters_stays_between_gaps_that_are_large_enough() -> None:
    messages = [message("assistant", FILLER) for _ in range(30)]
    messages[9] = message("user", "[TASK] approval was denied " + FILLER)
    pages = pages_of([*messages, message("user", "Well?")])
    folds = folds_of(Prune(), pages, Aim(pages.tokens * 2 // 3))
    assert 10 in kept_seqs(folds, 30)


def test_notes_beside_a_gap_are_merged_with_it_and_do_not_grow_without_end() -> None:
    pages = pages_of(chat(60, FILLER))
    goal = pages.tokens // 3
    for _ in range(12):
        pages = turned(pages, folds_of(Prune(), pages, Aim(goal)))
        pages = grown(pages, chat(20, FILLER))
    notes = [entry.tokens for entry in pages.view.entries if entry.is_summary]
    assert len(notes) <= 3
    assert 60 <= sum(notes) <= goal / 2


def grown(pages: Pages, messages: Sequence[Message]) -> Pages:
    """The pages with more messages behind them."""
    last = pages.view.last_seq
    more = pages_of(messages)
    entries = [replace(entry, start=entry.start + last, end=entry.end + last) for entry in more.view.entries]
    view = replace(pages.view, entries=(*pages.view.entries, *entries))
    return replace(pages, view=view, messages=[*pages.messages, *messages])


# ---- the other selections: 最新N件のみ保持, セッション境界で分割, トピッククラスタリング ----------------------------


def test_the_window_keeps_the_newest() -> None:
    pages = pages_of(chat(30))
    assert spans(folds_of(Prune("window", window=12), pages, Aim(pages.tokens - 1))) == [(1, 18)]
    as_many_as_fit = Prune("window", emergency=True)
    assert spans(folds_of(as_many_as_fit, pages, Aim(goal_for(pages, 20, notices=1)))) == [(1, 10)]
    smaller_than_the_goal_allows = Prune("window", window=25, emergency=True)
    assert spans(folds_of(smaller_than_the_goal_allows, pages, Aim(goal_for(pages, 20, notices=1)))) == [(1, 10)]


def test_an_exchange_goes_from_a_question_to_the_final_answer() -> None:
    working = [message("assistant", None, calls=["a"]), message("tool", "ok", answers="a")]
    pages = pages_of(
        [
            message("system", "You are an agent."),
            *(message("user", "do it"), *working, message("user", "faster, please"), message("assistant", "done")),
            *(message("user", "thanks"), message("user", "one more thing"), message("assistant", "yes?")),
            message("user", "that"),
        ]
    )
    assert exchanges(pages) == [FoldedRun(1, 6), FoldedRun(6, 9), FoldedRun(9, 10)]
    assert sessions(pages, 1) == [FoldedRun(1, 6), FoldedRun(6, 9), FoldedRun(9, 10)]
    assert sessions(pages, 6) == [FoldedRun(1, 9), FoldedRun(9, 10)]
    assert exchanges(pages_of([])) == []


def test_whole_sessions_are_folded_the_oldest_first_and_each_by_itself() -> None:
    pages = pages_of(chat(30))
    prune = Prune("session", session_messages=6, emergency=True)
    assert spans(folds_of(prune, pages, Aim(goal_for(pages, 15, notices=3)))) == [(1, 6), (7, 12), (13, 18)]


def test_a_session_that_was_folded_before_is_left_as_it_is() -> None:
    pages = turned(pages_of(chat(30)), [Fold(1, 1, 6, "what happened at first " * 9, 0, 0)])
    prune = Prune("session", session_messages=6, emergency=True)
    assert spans(folds_of(prune, pages, Aim(pages.tokens * 2 // 3))) == [(7, 12), (13, 18)]


def about(thing: str, count: int) -> list[Message]:
    said = f"Where does {thing}_loader read {thing}_config in src/{thing}.py before {thing}Cache is filled? " + FILLER
    return [message("user" if at % 2 == 0 else "assistant", f"{said} {at}") for at in range(count)]


def about_ja(thing: str, count: int) -> list[Message]:
    said = f"{thing}の確認、{thing}の修正、{thing}の検査を続けてください。" * 4
    return [message("user" if at % 2 == 0 else "assistant", said) for at in range(count)]


@pytest.mark.parametrize(
    "parts", [(about, "parser", "network", "painter"), (about_ja, "構文解析", "通信経路", "画面描画")]
)
def test_topics_that_the_newest_messages_are_about_stay(parts: tuple[object, str, str, str]) -> None:
    write, first, second, third = parts
    assert callable(write)
    pages = pages_of([*write(first, 6), *write(second, 6), *write(third, 6), *write(first, 4)])
    found = topics(pages)
    assert [(topic.run, topic.is_current) for topic in found] == [
        *((FoldedRun(0, 6), True), (FoldedRun(6, 12), False), (FoldedRun(12, 18), False), (FoldedRun(18, 22), True))
    ]
    one_topic = tokens_of(pages, 6) * 6
    prune = Prune("topic", emergency=True)
    assert spans(folds_of(prune, pages, Aim(pages.tokens - one_topic // 2, 2))) == [(7, 12)]
    assert spans(folds_of(prune, pages, Aim(pages.tokens - one_topic * 3 // 2, 2))) == [(7, 12), (13, 18)]
    assert spans(folds_of(prune, pages, Aim(pages.tokens - one_topic * 5 // 2, 2))) == [(1, 6), (7, 12), (13, 18)]


# ---- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("aim", "why"),
    [
        (Aim(0, keep_recent=8), WhyNot.NOTHING_OLD),
        (Aim(0, keep_recent=0, hands_off=((1, 8),)), WhyNot.NOTHING_OLD),
        (Aim(0, keep_recent=4, min_to_compress=5), WhyNot.TOO_FEW),
        (Aim(10**6, keep_recent=0), WhyNot.GOAL_REACHED),
    ],
)
@pytest.mark.parametrize("selection", SELECTIONS)
def test_nothing_to_prune(selection: PruneSelection, aim: Aim, why: WhyNot) -> None:
    assert Prune(selection).plan(pages_of(chat(8)), aim) == NothingToFold("prune", why)


def test_messages_shorter_than_a_notice_stay() -> None:
    pages = pages_of([message("user", "hmhm"), message("assistant", "okok")])
    assert Prune().plan(pages, Aim(0, 0, 1)) == NothingToFold("prune", WhyNot.NO_GAIN)


# ---- content scores --------------------------------------------------------------------------------------------------


def test_content_scores_are_kept_for_each_configuration() -> None:
    scores = ContentScores()
    quiet = ScoringConfig(important_keywords=[])
    assert scores.scorer()("an error") == content_score("an error")
    assert scores.scorer(quiet)("an error") == 0
    assert scores.scorer()("an error") == content_score("an error")
    assert len(scores) == 2
    prune = Prune(scores=scores)
    prune.plan(pages_of(chat(30)), Aim(100))
    known = len(scores)
    assert known > 20
    prune.plan(pages_of(chat(30)), Aim(100))
    assert len(scores) == known


@given(st.lists(st.text(max_size=30), max_size=60), st.integers(1, 10))
def test_kept_scores_are_the_scores_and_never_too_many(texts: list[str], most: int) -> None:
    scores = ContentScores(most)
    score = scores.scorer()
    for text in texts:
        assert score(text) == content_score(text)
        assert len(scores) <= most


# ---- properties ------------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(views_with_aims(), st.sampled_from(SELECTIONS), st.booleans())
def test_any_view(case: tuple[Pages, Aim], selection: PruneSelection, emergency: bool) -> None:
    pages, aim = case
    prune = Prune(selection, min_gap_for_summary=3, emergency=emergency)
    folds = checked(prune, pages, aim)
    after = turned(pages, folds)
    for fold in folds:
        run = FoldedRun(pages.view.index_of(fold.start_seq), pages.view.index_of(fold.end_seq) + 1)
        assert fold.form == "summary"
        assert pages.summary_tokens(fold.text) < pages.tokens_of(run)
        assert pages.new_messages(run)
    if selection == "importance" and not emergency:
        for run in pages.runs(aim):
            inside = [fold for fold in folds if pages.seq(run.start) <= fold.start_seq <= pages.seq(run.end - 1)]
            for fold in inside if log_messages(pages, run) >= 3 else ():
                assert fold.end_seq - fold.start_seq + 1 >= 3, "a gap is large enough for notes"
                assert not {fold.start_seq - 1, fold.end_seq + 1} & summary_ends(pages, run), "notes become one"
    if folds and after.tokens > aim.goal:
        # Everything that may be folded is folded, but for what is shorter than any notice.
        for run in pages.runs(aim):
            notice = pages.summary_tokens("[Messages omitted here: 99 (10-99)]")
            is_folded = (pages.seq(run.start), pages.view.entries[run.end - 1].end) in spans(folds)
            assert is_folded or pages.tokens_of(run) <= notice or pages.pinned_lines(run)
        assert not checked(prune, after, aim)


def log_messages(pages: Pages, run: FoldedRun) -> int:
    return pages.view.entries[run.end - 1].end - pages.view.entries[run.start].start + 1


def summary_ends(pages: Pages, run: FoldedRun) -> set[int]:
    return {seq for entry in pages.entries(run) if entry.is_summary for seq in (entry.start, entry.end)}


def test_a_fold_is_introduced_as_a_summary() -> None:
    pages = pages_of(chat(30))
    after = turned(pages, folds_of(Prune("window"), pages, Aim(pages.tokens // 2)))
    assert after.messages[0].text.startswith(SUMMARY_PREFIX)
