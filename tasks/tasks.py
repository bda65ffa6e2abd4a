"""The job app's own jobs."""

from tasks.api import job
from tasks.clock import database_now
from tasks.prune import BATCH, prune_batch

MAX_BATCHES = 500


@job("jobs.prune")
def prune() -> None:
    """Delete old finished jobs in batches; what is left after many batches is left to the next firing."""
    for _ in range(MAX_BATCHES):
        if prune_batch(BATCH, database_now()) < BATCH:
            return
