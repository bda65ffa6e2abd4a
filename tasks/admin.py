"""Jobs in Django admin: what failed and why, and the decisions that a person may make about it."""

import time
from collections.abc import Callable

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.admin.utils import flatten
from django.core.exceptions import PermissionDenied
from django.db import connection
from django.db.models import Q, QuerySet
from django.db.models.functions import Now
from django.http import HttpResponseNotAllowed, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils.html import format_html

from tasks import admin_pauses, admin_schedules, words  # noqa: F401 (both register pages)
from tasks.admin_list import AgeFilter, BoundedPaginator, JobList, KindFilter, QueueFilter, StateFilter
from tasks.admin_page import FIELDSETS, NOTHING, pill
from tasks.decisions import VERBS, Outcome, Verb, decide_all, told
from tasks.models import Job
from tasks.states import State

DECIDE_FOR_S = 20.0  # below gunicorn's timeout of 30 s; what is left is said
BREATH_S = 0.02  # between batches on SQLite, whose other writers only look now and then whether it is their turn


def within(seconds: float) -> Callable[[], bool]:
    """Return a function that lets other writers through and tells whether there is time left."""
    stop_at = time.monotonic() + seconds

    def may_go_on() -> bool:
        if connection.vendor == "sqlite":
            time.sleep(BREATH_S)
        return time.monotonic() < stop_at

    return may_go_on


@admin.register(Job)
class JobAdmin(admin.ModelAdmin):
    """Who may view jobs sees them; who may change jobs decides about them; nobody edits a row."""

    list_display = ["number", "kind", "state_word", "when", "tries", "error", "age", "queue", "priority"]
    list_display_links = ["number", "kind"]
    list_filter = [StateFilter, KindFilter, QueueFilter, AgeFilter]
    list_per_page = 100
    list_max_show_all = 200
    ordering = ["-id"]
    sortable_by = []
    search_fields = ["id", "unique_key"]
    search_help_text = "A job's number, or the beginning of its unique key."
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    paginator = BoundedPaginator
    actions = ["retry_selected", "discard_selected", "cancel_selected"]
    fieldsets = [(title, {"fields": fields}) for title, fields in FIELDSETS.items()]
    readonly_fields = flatten(row for rows in FIELDSETS.values() for row in rows)

    class Media:
        css = {"all": ["tasks/job_admin.css"]}

    # -- the list -----------------------------------------------------------------------------

    @admin.display(description="id")
    def number(self, job: Job) -> str:
        """Return the id as it is typed into the search."""
        return str(job.id)

    @admin.display(description="state")
    def state_word(self, job: Job) -> str:
        """Return the state, coloured."""
        return pill(job)

    @admin.display(description="attempts")
    def tries(self, job: Job) -> str:
        """Return how many attempts are spent."""
        return f"{job.attempts} of {job.max_attempts}"

    @admin.display(description="age")
    def age(self, job: Job) -> str:
        """Return the time since the job was enqueued."""
        exact, age = words.moment(job.enqueued_at, job.read_at), words.span(job.read_at - job.enqueued_at)
        return format_html('<span title="{}">{}</span>', exact, age)

    @admin.display(description="when")
    def when(self, job: Job) -> str:
        """Return since when it is in its state, or when it is due."""
        return words.standing(job, job.read_at)

    @admin.display(description="last error")
    def error(self, job: Job) -> str:
        """Return why the newest failed run failed."""
        return format_html('<span class="job-error">{}</span>', words.last_error(job) or NOTHING)

    def get_queryset(self, request) -> QuerySet:
        """Read the database's time with the rows, so that ages mean one clock."""
        return super().get_queryset(request).annotate(read_at=Now())

    def get_changelist(self, request, **kwargs) -> type[JobList]:
        """Return the list that knows one order only."""
        return JobList

    def changelist_view(self, request, extra_context=None):
        """Call the list what it is: there is nothing to select for changing."""
        return super().changelist_view(request, {"title": "Jobs", **(extra_context or {})})

    def get_search_results(self, request, queryset, search_term) -> tuple[QuerySet, bool]:
        """Find a job by its number, or jobs by the beginning of their unique key."""
        term = search_term.strip()
        if not term:
            return queryset, False
        found = Q(unique_key__startswith=term)
        if term.isascii() and term.isdigit():
            found |= Q(id=int(term))
        return queryset.filter(found), False

    def lookup_allowed(self, lookup, value, request=None) -> bool:
        """Refuse every lookup but the filters': `arguments__...` would tell masked secrets letter by letter."""
        return lookup in {choice.parameter_name for choice in self.list_filter}

    # -- who may do what ----------------------------------------------------------------------

    def has_add_permission(self, request) -> bool:
        """Jobs are made by code, in the transaction of what they belong to."""
        return False

    def has_delete_permission(self, request, obj=None) -> bool:
        """Rows leave by prune; a person discards."""
        return False

    # -- decisions on the list ----------------------------------------------------------------

    @admin.action(description="Retry (dead jobs)", permissions=["change"])
    def retry_selected(self, request, queryset):
        """Transition: dead -> waiting."""
        return self._act(request, queryset, VERBS["retry"])

    @admin.action(description="Discard (dead jobs)", permissions=["change"])
    def discard_selected(self, request, queryset):
        """Transition: dead -> discarded."""
        return self._act(request, queryset, VERBS["discard"])

    @admin.action(description="Cancel (waiting, relayed or running jobs)", permissions=["change"])
    def cancel_selected(self, request, queryset):
        """Transition: waiting or relayed -> cancelled; running is asked to stop."""
        return self._act(request, queryset, VERBS["cancel"])

    def _act(self, request, queryset, verb: Verb):
        """Ask first where that is due, then decide about the selected jobs or all that match the filter."""
        ticked = request.POST.getlist(ACTION_CHECKBOX_NAME)
        across = request.POST.get("select_across", "0")
        if across in ("", "0", "false", "False"):
            queryset = Job.objects.filter(id__in=ticked)  # also those that left the filter meanwhile: they are told of
        if verb.has_confirmation and "is_confirmed" not in request.POST:
            hidden = [("action", f"{verb.name}_selected"), ("select_across", across), ("is_confirmed", "1")]
            hidden += [(ACTION_CHECKBOX_NAME, value) for value in ticked]
            return self._confirmation(request, verb, queryset, hidden=hidden, back=request.get_full_path())
        self._decide(request, verb, queryset)
        return None

    # -- a job's page -------------------------------------------------------------------------

    def get_urls(self) -> list:
        """Add one address for each decision about one job."""
        own = [
            path(
                f"<int:job_id>/{verb.name}/",
                self.admin_site.admin_view(self.decision_view),
                {"verb": verb},
                name=f"tasks_job_{verb.name}",
            )
            for verb in VERBS.values()
        ]
        return own + super().get_urls()

    def change_view(self, request, object_id, form_url="", extra_context=None):
        """Show a job; there is nothing to save."""
        if request.method not in ("GET", "HEAD"):
            return HttpResponseNotAllowed(["GET", "HEAD"])
        return super().change_view(request, object_id, form_url, extra_context)

    def render_change_form(self, request, context, add=False, change=False, form_url="", obj=None):
        """Lead with what a person came for: what is wrong, since when, and what can be done."""
        failure = None if obj.state == State.SUCCEEDED else words.last_failure(obj)
        may_decide = self.has_change_permission(request, obj)
        context |= {
            "title": f"Job {obj.id}: {obj.kind}",
            "subtitle": None,
            "pill": pill(obj),
            "standing": words.standing(obj, obj.read_at),
            "advice": words.advice(obj),
            "failure": failure and words.read(failure),
            "timeline": words.timeline(obj),
            "verbs": [verb for verb in VERBS.values() if may_decide and obj.state in verb.states],
        }
        return super().render_change_form(request, context, add, change, form_url, obj)

    def decision_view(self, request, job_id: int, verb: Verb):
        """Ask about one job (GET), or decide about it (POST)."""
        if not self.has_change_permission(request):
            raise PermissionDenied
        job = get_object_or_404(Job.objects.only("id", "kind"), id=job_id)
        page = reverse("admin:tasks_job_change", args=[job.id], current_app=self.admin_site.name)
        chosen = Job.objects.filter(id=job.id)
        if request.method != "POST":
            return self._confirmation(request, verb, chosen, hidden=[], back=page)
        self._decide(request, verb, chosen)
        return HttpResponseRedirect(page)

    # -- both ---------------------------------------------------------------------------------

    def _confirmation(self, request, verb: Verb, queryset: QuerySet, *, hidden: list, back: str) -> TemplateResponse:
        number = words.bounded_count(queryset)
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "media": self.media,
            "title": f"{verb.name.capitalize()} {words.jobs(number)}?",
            "verb": verb,
            "few": list(queryset.order_by("-id").only("id", "kind", "state")[:10]) if number <= 10 else [],
            "hidden": hidden,
            "back": back,
        }
        request.current_app = self.admin_site.name
        return TemplateResponse(request, "admin/tasks/job/confirmation.html", context)

    def _decide(self, request, verb: Verb, queryset: QuerySet) -> None:
        """Decide, leave a trace in admin's own log too, and tell what came of it."""
        outcome = decide_all(
            verb,
            queryset,
            by=f"user {request.user.pk}",
            record=lambda jobs: LogEntry.objects.log_actions(
                request.user.pk, jobs, CHANGE, f"{verb.past.capitalize()}."
            ),
            may_go_on=within(DECIDE_FOR_S),
        )
        self._tell(request, verb, outcome)

    def _tell(self, request, verb: Verb, outcome: Outcome) -> None:
        done, left = told(verb, outcome)
        if done:
            self.message_user(request, done, messages.SUCCESS)
        if left or not done:
            self.message_user(request, left or "No job matched, so nothing was changed.", messages.WARNING)
