"""The job of the smoke test."""

from django.conf import settings

from tasks.api import RetryLater, job

SMOKE = "ops.smoke"
QUEUE = "ops"
AGAIN_S = 1.0


# A queue of its own: neither a backlog nor a pause of other queues may hold up a deploy.
@job(SMOKE, queue=QUEUE, priority=9, max_age_s=120.0, soft_time_limit_s=10, time_limit_s=20, atomic=True)
def smoke(release: str) -> None:
    """Do nothing, in a worker of that release; its row, succeeded, is the mark that the whole chain works.

    Raises: RetryLater in a worker of another release: it may still be finishing what it runs.
    """
    if release != settings.RELEASE:
        raise RetryLater(AGAIN_S, f"this worker runs release {settings.RELEASE}")
