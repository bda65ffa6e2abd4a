"""What has happened to a job: its last failures and decisions, as its row keeps them.

Source: docs/decisions/0005
"""

from datetime import datetime

FAILURES_KEPT = 10
DECISIONS_KEPT = 10


def with_entry(history: list, entry: dict) -> list:
    """Return the history with one entry more: the last ten failures and the last ten decisions are kept.

    Shape: an entry has `at` (ISO time) and `what`; a failed run adds run, attempt, error, traceback, worker;
    a person's decision adds `by`.
    """
    kept = history + [entry]
    for is_of_group, limit in ((lambda e: "by" not in e, FAILURES_KEPT), (lambda e: "by" in e, DECISIONS_KEPT)):
        surplus = sum(map(is_of_group, kept)) - limit
        if surplus > 0:
            oldest = next(i for i, e in enumerate(kept) if is_of_group(e))
            kept = kept[:oldest] + kept[oldest + 1 :]
    return kept


def decision(what: str, by: str, now: datetime) -> dict:
    """Return the history entry of what a person decided."""
    return {"at": now.isoformat(timespec="seconds"), "what": what, "by": by}
