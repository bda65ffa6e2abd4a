"""What the admin's list of jobs shows, and how it stays quick when there are a million rows."""

from datetime import timedelta

from django.conf import settings
from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import ChangeList
from django.core.paginator import Paginator
from django.db.models import Q, QuerySet
from django.utils.functional import cached_property

from tasks import registry, words
from tasks.clock import database_now
from tasks.states import FINISHED, State


class BoundedPaginator(Paginator):
    """Count no further than words.COUNTED; who needs an older page narrows the filter."""

    @cached_property
    def count(self) -> int:
        """Return how many rows can be paged through."""
        return words.bounded_count(self.object_list)


class JobList(ChangeList):
    """Newest first, always: any other order would sort the whole table."""

    def get_ordering(self, request, queryset) -> list[str]:
        """Return the one order that the primary key serves, whatever the address says."""
        return ["-id"]

    def get_queryset(self, request, exclude_parameters=None) -> QuerySet:
        """Leave out the columns that only a job's own page shows."""
        return super().get_queryset(request, exclude_parameters).defer("arguments", "checkpoint")

    @property
    def counted(self) -> str:
        """Return the number of matching jobs in words."""
        return words.jobs(self.result_count)


class Choice(admin.SimpleListFilter):
    """A filter whose unknown value is refused: ignoring it would show, and act on, every job."""

    def queryset(self, request, queryset) -> QuerySet:
        """Narrow the list to the chosen value.

        Raises: IncorrectLookupParameters, which leads back to the list and carries out nothing.
        """
        if self.value() is None:
            return queryset
        if self.value() not in {value for value, _ in self.lookup_choices}:
            raise IncorrectLookupParameters(f"{self.parameter_name} has no choice {self.value()!r}.")
        return self.narrowed(queryset, self.value())


class StateFilter(Choice):
    """Where a job stands."""

    title, parameter_name = "state", "state"

    def lookups(self, request, model_admin) -> list[tuple[str, str]]:
        """Return every state."""
        return State.choices

    def narrowed(self, queryset, value) -> QuerySet:
        """Name the condition of index job_finished too, or the planner does not use it."""
        rows = queryset.filter(state=value)
        return rows.filter(finished_at__isnull=False) if value in FINISHED else rows


class KindFilter(Choice):
    """Which task runs it. The choices come from the code, not from a look at every row."""

    title, parameter_name = "kind", "kind"

    def lookups(self, request, model_admin) -> list[tuple[str, str]]:
        """Return the registered kinds."""
        return [(kind.name, kind.name) for kind in registry.kinds()]

    def narrowed(self, queryset, value) -> QuerySet:
        """Keep the jobs of one kind."""
        return queryset.filter(kind=value)


class QueueFilter(Choice):
    """Which workers take it."""

    title, parameter_name = "queue", "queue"

    def lookups(self, request, model_admin) -> list[tuple[str, str]]:
        """Return the queues that workers take."""
        return [(name, name) for name in settings.JOBS_QUEUES]

    def narrowed(self, queryset, value) -> QuerySet:
        """Keep the jobs of one queue."""
        return queryset.filter(queue=value)


class AgeFilter(Choice):
    """How old a job is, or how long it has been due without being run."""

    title, parameter_name = "age", "age"
    CHOICES = {
        "5min": ("enqueued in the last 5 min", lambda now: Q(enqueued_at__gte=now - timedelta(minutes=5))),
        "hour": ("enqueued in the last hour", lambda now: Q(enqueued_at__gte=now - timedelta(hours=1))),
        "day": ("enqueued in the last day", lambda now: Q(enqueued_at__gte=now - timedelta(days=1))),
        "older": ("enqueued more than a day ago", lambda now: Q(enqueued_at__lt=now - timedelta(days=1))),
        "due1": ("due for more than 1 min", lambda now: waiting_since(now - timedelta(minutes=1))),
        "due10": ("due for more than 10 min", lambda now: waiting_since(now - timedelta(minutes=10))),
    }

    def lookups(self, request, model_admin) -> list[tuple[str, str]]:
        """Return the ages by their words."""
        return [(value, label) for value, (label, _) in self.CHOICES.items()]

    def narrowed(self, queryset, value) -> QuerySet:
        """Compare with the database's time, which the rows were written with."""
        return queryset.filter(self.CHOICES[value][1](database_now()))


def waiting_since(at) -> Q:
    """Return the condition of a job that could have been run since then, and was not."""
    return Q(state__in=[State.WAITING, State.RELAYED], run_at__lt=at)
