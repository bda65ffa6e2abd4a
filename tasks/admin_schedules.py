"""Schedules in Django admin: what fires when, what is broken and why. Beat sees each edit at its next step."""

from datetime import datetime

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.text import Truncator
from django_celery_beat import admin as stock
from django_celery_beat.models import CrontabSchedule, IntervalSchedule, PeriodicTask, SolarSchedule

from tasks import words
from tasks.admin_page import NOTHING
from tasks.admin_schedule_forms import CrontabChoice, CrontabForm, IntervalForm, ScheduleForm, crontab_words, crontabs
from tasks.clock import database_now
from tasks.enqueue import enqueue
from tasks.models import BeatHeartbeat
from tasks.schedules import UNUSED, BrokenSchedule, job_of, schedules, slots_of

SLOTS_SHOWN = 5
PROBLEM_SHOWN = 100  # characters
SILENT_AFTER_S = 20
NO_BEAT = "No beat is firing, so no schedule is. Start one: celery -A project beat"


class ScheduleAdmin(stock.PeriodicTaskAdmin):
    """The stock page without its inline script, with what beat knows of each schedule."""

    form = ScheduleForm
    change_form_template = None
    date_hierarchy = None
    list_display = ["name", "enabled", "task", "fires", "next_slot", "last_slot"]
    list_filter = ["enabled", "task"]
    ordering = ["name"]
    actions = ["enable_tasks", "disable_tasks", "run_tasks"]
    readonly_fields = ["next_slots", "problem", "last_run_at", "total_run_count"]
    fieldsets = [
        (None, {"fields": ["name", "task", "enabled", "description"]}),
        ("Schedule: one of these", {"fields": ["crontab", "interval", "clocked"]}),
        ("How long, how late", {"fields": ["start_time", "expires", "expire_seconds", "one_off"]}),
        ("Arguments", {"fields": ["args", "kwargs"]}),
        ("What happened, what comes", {"fields": ["problem", "next_slots", "last_run_at", "total_run_count"]}),
        ("Not used: leave empty", {"fields": list(UNUSED), "classes": ["collapse"]}),
    ]

    def get_queryset(self, request) -> QuerySet:
        """Read what a firing needs, so that the list asks the database once."""
        return schedules()

    def formfield_for_foreignkey(self, db_field, request, **kwargs):
        """Offer crontabs in words."""
        if db_field.name == "crontab":
            kwargs |= {"form_class": CrontabChoice, "queryset": crontabs()}
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def get_object(self, request, object_id, from_field=None) -> PeriodicTask | None:
        """Return a schedule whose time zone is text: it can be told even if this machine does not know it."""
        row = super().get_object(request, object_id, from_field)
        if row and row.crontab:
            vars(row.crontab)["timezone"] = row.zone  # setting the attribute would look the zone up
        return row

    def action_checkbox(self, row: PeriodicTask) -> str:
        """Return the box in front of a row, labelled by the name: more of it would be one query each."""
        label = f"Select {row.name} for an action"
        box = forms.CheckboxInput({"class": "action-select", "aria-label": label}, lambda value: False)
        return box.render(ACTION_CHECKBOX_NAME, str(row.pk))

    def changeform_view(self, request, object_id=None, form_url="", extra_context=None):
        """Show the form; stock would read every crontab for its script."""
        return admin.ModelAdmin.changeform_view(self, request, object_id, form_url, extra_context)

    def changelist_view(self, request, extra_context=None):
        """Say so when nothing fires at all."""
        newest = BeatHeartbeat.objects.filter(is_firing=True).order_by("-seen_at").first()
        is_silent = newest is None or (database_now() - newest.seen_at).total_seconds() > SILENT_AFTER_S
        if is_silent and request.method == "GET":
            self.message_user(request, NO_BEAT, messages.WARNING)
        return admin.ModelAdmin.changelist_view(self, request, {"title": "Schedules", **(extra_context or {})})

    @admin.display(description="fires")
    def fires(self, row: PeriodicTask) -> str:
        """Return the schedule as it was entered."""
        if row.crontab_id:
            return crontab_words(row.crontab, row.zone)
        return str(row.interval or row.clocked or NOTHING)

    @admin.display(description="next slot, or what is wrong")
    def next_slot(self, row: PeriodicTask) -> str:
        """Return when it fires next, or the beginning of why it does not."""
        if error := error_of(row):
            return format_html('<span class="job-error">{}</span>', Truncator(error).chars(PROBLEM_SHOWN))
        now = timezone.now()
        return next((words.moment(slot, now) for slot in ahead(row, now, 1)), NOTHING)

    @admin.display(description="next slots")
    def next_slots(self, row: PeriodicTask) -> str:
        """Return when it fires next, a few times."""
        now = timezone.now()
        lines = format_html_join("", "<li>{}</li>", ((words.moment(slot, now),) for slot in ahead(row, now)))
        return format_html("<ol>{}</ol>", lines) if lines else NOTHING

    @admin.display(description="problem")
    def problem(self, row: PeriodicTask) -> str:
        """Return what beat has found wrong with it."""
        return format_html('<span class="job-error">{}</span>', error_of(row)) if error_of(row) else NOTHING

    @admin.display(description="last slot fired")
    def last_slot(self, row: PeriodicTask) -> str:
        """Return the last slot that became a job."""
        return words.moment(row.last_run_at, timezone.now()) if row.last_run_at else NOTHING

    @admin.action(description="Run selected schedules now", permissions=["change"])
    def run_tasks(self, request, queryset):
        """Enqueue one job of each, beside its slots. Transition: -> waiting."""
        for row in queryset:
            try:
                with transaction.atomic():
                    job = enqueue(row.task, **job_of(row).arguments)
                self.message_user(request, f"{row.name}: job {job.id} is waiting.", messages.SUCCESS)
            except BrokenSchedule as error:
                self.message_user(request, f"{row.name}: {error}", messages.ERROR)

    class Media:
        css = {"all": ["tasks/job_admin.css", "tasks/schedule_admin.css"]}


def error_of(row: PeriodicTask) -> str:
    """Return what beat has found wrong with a schedule; empty where it has found nothing."""
    state = getattr(row, "beat_state", None)
    return state.error if state else ""


def ahead(row: PeriodicTask, now: datetime, number: int = SLOTS_SHOWN) -> list[datetime]:
    """Return the next slots of an enabled schedule; none when it has none or is broken."""
    if not (row.id and row.enabled) or error_of(row):
        return []
    try:
        slots = slots_of(row)
    except BrokenSchedule:
        return []
    state, found = getattr(row, "beat_state", None), []
    after = state.anchor if state else now
    while len(found) < number and (after := slots.first_after(after)):
        found += [after] if after > now else []
    return found


class CrontabAdmin(stock.CrontabScheduleAdmin):
    """The stock page; its form refuses what can never fire."""

    form = CrontabForm


class IntervalAdmin(stock.IntervalScheduleAdmin):
    """The stock page; its form refuses less than a second."""

    form = IntervalForm


for model in (PeriodicTask, CrontabSchedule, IntervalSchedule, SolarSchedule):
    admin.site.unregister(model)
admin.site.register(PeriodicTask, ScheduleAdmin)
admin.site.register(CrontabSchedule, CrontabAdmin)
admin.site.register(IntervalSchedule, IntervalAdmin)
