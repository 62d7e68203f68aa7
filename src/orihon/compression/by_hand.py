"""What somebody has set by hand, told where it cannot hold, and where it is why nothing is folded.

``keep_recent`` and ``min_to_compress`` win over the ladder's own shrinking as long as the view can be sent. Promises:
who has set neither hears nothing; a sentence names the setting, its value and what came of it.
"""

from __future__ import annotations

from collections.abc import Iterator

from orihon.compression.pages import NothingToFold, Pages, WhyNot
from orihon.compression.planner import Draft, Job
from orihon.texts import text

KEEP_RECENT, MIN_TO_COMPRESS = "compression.keep_recent", "compression.min_to_compress"


def by_hand(pages: Pages, job: Job, planned: Draft | NothingToFold) -> tuple[str, ...]:
    """The sentences on one plan."""
    if isinstance(planned, NothingToFold):
        return tuple(_holding(job, planned.reason))
    return tuple(_giving_way(pages, job, planned))


def _holding(job: Job, reason: WhyNot) -> Iterator[str]:
    if job.is_firm and reason is WhyNot.NOTHING_OLD:
        yield text("compression.holds", setting=KEEP_RECENT, wanted=job.aim.keep_recent)
    if job.is_least_firm and reason is WhyNot.TOO_FEW:
        yield text("compression.holds", setting=MIN_TO_COMPRESS, wanted=job.aim.min_to_compress)


def _giving_way(pages: Pages, job: Job, planned: Draft) -> Iterator[str]:
    view, folds = pages.view, planned.plan.folds
    kept = len(view.entries) - 1 - view.index_of(max(fold.end_seq for fold in folds))
    if job.is_firm and kept < min(job.aim.keep_recent, len(view.entries) - view.head):
        wanted = job.aim.keep_recent
        yield text("compression.recent_gives_way", setting=KEEP_RECENT, wanted=wanted, kept=kept, room=job.limit)
    runs = [pages.run_of(fold) for fold in folds if fold.form == "summary"]
    folded = sum(map(pages.new_messages, runs))
    if job.is_least_firm and runs and folded < job.aim.min_to_compress:
        wanted = job.aim.min_to_compress
        yield text("compression.least_gives_way", setting=MIN_TO_COMPRESS, wanted=wanted, folded=folded, room=job.limit)
