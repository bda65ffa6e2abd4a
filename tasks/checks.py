"""Rules between settings, run by `manage.py check`."""

from django.conf import settings
from django.core.checks import Error, register

from tasks import registry


@register("jobs")
def check_kinds(app_configs, **kwargs) -> list[Error]:
    """Say which kind could never run as it is declared."""
    found = []
    visibility_s = getattr(settings, "CELERY_BROKER_TRANSPORT_OPTIONS", {}).get("visibility_timeout")
    for kind in registry.kinds():
        if kind.queue not in settings.JOBS_QUEUES:
            found.append(
                Error(
                    f"{kind.name} goes to queue {kind.queue!r}, which no worker takes.",
                    hint=f"Add it to JOBS_QUEUES or use one of: {', '.join(settings.JOBS_QUEUES)}.",
                    id="jobs.E001",
                )
            )
        hard_s = kind.time_limit_s or settings.CELERY_TASK_TIME_LIMIT
        soft_s = kind.soft_time_limit_s or settings.CELERY_TASK_SOFT_TIME_LIMIT
        if soft_s >= hard_s:
            found.append(
                Error(
                    f"{kind.name}: its soft time limit of {soft_s} s is not below the hard one of {hard_s} s.",
                    hint="Give both limits to @job, so that the handler can clean up before it is killed.",
                    id="jobs.E002",
                )
            )
        if visibility_s is not None and hard_s >= visibility_s:
            found.append(
                Error(
                    f"{kind.name}: its hard time limit of {hard_s} s is not below the visibility timeout "
                    f"of {visibility_s} s.",
                    hint="Shorten the limit, split the job, or raise visibility_timeout.",
                    id="jobs.E003",
                )
            )
    return found
