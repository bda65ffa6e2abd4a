"""The forms of schedules in Django admin: they refuse in words what could never fire."""

from django import forms
from django.core.exceptions import ValidationError
from django.db.models import CharField, QuerySet
from django.db.models.functions import Cast
from django.utils import timezone
from django_celery_beat.models import CrontabSchedule, IntervalSchedule, PeriodicTask

from tasks import registry
from tasks.schedules import (
    SHORTEST_EXPIRY_S,
    BrokenSchedule,
    check_schedule,
    crontab_slots,
    nothing_ahead,
    slots_of,
)


def crontab_words(crontab: CrontabSchedule, zone: str) -> str:
    """Return a crontab's fields, what they mean, and its zone, also where this machine does not know that zone."""
    names = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")
    fields = " ".join(getattr(crontab, name) for name in names)
    try:
        crontab.timezone = crontab_slots(crontab, zone).zone
    except BrokenSchedule as error:
        return f"{fields} {zone}: {error}"
    return f"{fields}: {crontab.human_readable}"


def crontabs() -> QuerySet:
    """Return all crontabs, their zones as text."""
    return CrontabSchedule.objects.defer("timezone").annotate(zone=Cast("timezone", CharField()))


class CrontabChoice(forms.ModelChoiceField):
    """Crontabs in words."""

    def label_from_instance(self, crontab: CrontabSchedule) -> str:
        """Return the fields, what they mean, and the zone."""
        return crontab_words(crontab, crontab.zone)


class ScheduleForm(forms.ModelForm):
    """Refuse in words what could not fire."""

    task = forms.ChoiceField(help_text="The kind of job that each slot becomes.")

    class Meta:
        model = PeriodicTask
        exclude = ["solar"]
        labels = {
            "start_time": "Not before",
            "expires": "Not after",
            "expire_seconds": "At most this late (s)",
            "one_off": "Once",
            "args": "Positional arguments (args)",
            "kwargs": "Keyword arguments (kwargs)",
        }
        help_texts = {
            "expires": "No slot after this time fires.",
            "expire_seconds": "How late a slot may still fire. Empty: one missed slot is caught up, however late. "
            f"{SHORTEST_EXPIRY_S} or more: what was missed for longer is left out.",
            "start_time": "No slot before this time fires; an interval is counted from here.",
            "one_off": "Switch it off after its first firing. A clocked schedule always is.",
            "enabled": "Beat sees a change within seconds.",
        }

    def __init__(self, *args, **kwargs):
        """Offer the kinds that exist, and one that is already chosen."""
        super().__init__(*args, **kwargs)
        names = [kind.name for kind in registry.kinds()]
        names += [self.instance.task] if self.instance.task and self.instance.task not in names else []
        self.fields["task"].choices = [("", "---------"), *((name, name) for name in names)]

    def clean(self):
        """Fill in what goes without saying: a clocked schedule fires once, no headers are an empty object."""
        data = super().clean()
        data["one_off"] = bool(data.get("one_off") or data.get("clocked"))
        data["headers"] = data.get("headers") or "{}"  # the stock model saves an empty text as NULL and fails
        return data

    def _post_clean(self):
        super()._post_clean()
        for sentence in [] if self.errors else self._problems():
            self.add_error(None, sentence)

    def _problems(self) -> list[str]:
        found = check_schedule(self.instance)
        if not found and self.instance.enabled:
            found = [nothing_ahead(slots_of(self.instance), timezone.now())]
        return [sentence for sentence in found if sentence]


class CrontabForm(forms.ModelForm):
    """Refuse a crontab that never comes."""

    def _post_clean(self):
        super()._post_clean()
        if self.errors:
            return
        try:
            slots = crontab_slots(self.instance, str(self.instance.timezone))
        except BrokenSchedule as error:
            self.add_error(None, str(error))
        else:
            if slots.first_after(timezone.now()) is None:
                self.add_error(None, "It has no slot within the next 8 years.")


class IntervalForm(forms.ModelForm):
    """Refuse an interval that is no time at all."""

    def clean(self):
        """Raises: ValidationError when it is under one second."""
        data = super().clean()
        if data.get("period") == IntervalSchedule.MICROSECONDS and data.get("every", 0) < 1_000_000:
            raise ValidationError("The shortest interval is one second.")
        return data
