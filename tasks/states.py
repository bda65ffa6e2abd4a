"""Where a job can stand, and how long a unique key holds."""

from django.db.models import TextChoices


class State(TextChoices):
    """Where a job stands, who moves it on, and how long the row is kept."""

    WAITING = "waiting", "waiting"  # due at run_at; moved on by the relay
    RELAYED = "relayed", "relayed"  # handed to the broker; moved on by a worker, or back by the lost-message rule
    RUNNING = "running", "running"  # in a worker's hands; moved on by that worker
    SUCCEEDED = "succeeded", "succeeded"  # done; pruned after JOBS_KEEP_SUCCEEDED_S
    DEAD = "dead", "dead"  # a person decides; pruned after JOBS_KEEP_DEAD_S
    CANCELLED = "cancelled", "cancelled"  # a person or the code withdrew it; pruned after JOBS_KEEP_SUCCEEDED_S
    DISCARDED = "discarded", "discarded"  # a person gave it up; pruned after JOBS_KEEP_DEAD_S


LIVE = (State.WAITING, State.RELAYED, State.RUNNING)
FINISHED = (State.SUCCEEDED, State.DEAD, State.CANCELLED, State.DISCARDED)


class Scope(TextChoices):
    """How long a unique_key holds its place."""

    ROW = "row", "as long as the row exists"
    LIVE = "live", "until it has finished"
