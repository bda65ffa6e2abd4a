"""Pauses in Django admin: add one to pause a queue or a kind, delete it to resume."""

from django import forms
from django.conf import settings
from django.contrib import admin

from tasks import registry, words
from tasks.clock import database_now
from tasks.models import Pause
from tasks.pauses import pause, resume


class PauseForm(forms.ModelForm):
    """Choose among the queues and kinds that this site knows."""

    target = forms.ChoiceField(label="Pause", help_text="Its jobs wait until it is resumed. What runs now goes on.")

    class Meta:
        model = Pause
        fields = []

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        queues = [(f"queue {name}", f"queue {name}") for name in settings.JOBS_QUEUES]
        kinds = [(f"kind {kind.name}", kind.name) for kind in registry.kinds()]
        self.fields["target"].choices = [("Queues", queues), ("Kinds", kinds)]

    def clean_target(self) -> str:
        """Refuse what is paused already."""
        target = self.cleaned_data["target"]
        what, _, name = target.partition(" ")
        if Pause.objects.filter(what=what, name=name).exists():
            raise forms.ValidationError(f"The {target} is paused already.")
        return target


@admin.register(Pause)
class PauseAdmin(admin.ModelAdmin):
    """Adding a row pauses, deleting it resumes; there is nothing to edit."""

    form = PauseForm
    list_display = ["what", "name", "since", "by"]
    ordering = ["what", "name"]
    actions = ["resume_selected"]
    readonly_fields = ["what", "name", "since", "by"]

    @admin.display(description="since")
    def since(self, row: Pause) -> str:
        """Return when it was paused, and how long ago that is."""
        return words.moment(row.paused_at, database_now())

    def changelist_view(self, request, extra_context=None):
        """Call the list what it is."""
        return super().changelist_view(request, {"title": "What is paused", **(extra_context or {})})

    def get_fields(self, request, obj=None) -> list[str]:
        """Ask what to pause, or show what is."""
        return ["target"] if obj is None else self.readonly_fields

    def get_actions(self, request) -> dict:
        """Offer one way to resume, not deletion beside it."""
        return {name: action for name, action in super().get_actions(request).items() if name != "delete_selected"}

    @admin.action(description="Resume the selected ones", permissions=["delete"])
    def resume_selected(self, request, queryset) -> None:
        """Resume each of them, and say so."""
        self.log_deletions(request, queryset)
        for row in queryset:
            self.delete_model(request, row)
            self.message_user(request, f"The {row} goes on.")

    def has_change_permission(self, request, obj=None) -> bool:
        """A pause is there or not."""
        return False

    def save_model(self, request, obj, form, change) -> None:
        """Pause, with what was handed over already."""
        what, _, name = form.cleaned_data["target"].partition(" ")
        made = pause(what, name, f"user {request.user.pk}")
        obj.pk, obj.what, obj.name = made.pk, made.what, made.name

    def delete_model(self, request, obj) -> None:
        """Resume."""
        resume(obj.what, obj.name, f"user {request.user.pk}")
