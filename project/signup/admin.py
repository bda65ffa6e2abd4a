"""Signups in Django admin, to look at: what people did is not edited."""

from django.contrib import admin
from django.http import HttpRequest

from project.signup.models import Signup, SignupRequest


class ReadOnlyAdmin(admin.ModelAdmin):
    """Show rows; they go when their user is deleted."""

    actions = None

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Refuse: signing up makes rows."""
        return False

    def has_change_permission(self, request: HttpRequest, obj=None) -> bool:
        """Refuse: the jobs rely on them."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj=None) -> bool:
        """Allow it as a part of deleting a user only."""
        is_user_page = request.resolver_match.url_name.startswith("accounts_user_")
        return is_user_page and super().has_delete_permission(request, obj)


@admin.register(Signup)
class SignupAdmin(ReadOnlyAdmin):
    """Who signed up, confirmed, and was mailed."""

    list_display = ("id", "address", "confirmed_at", "mail_job_id", "mail_sent_at", "welcome_sent_at", "created_at")
    list_filter = (("confirmed_at", admin.EmptyFieldListFilter), ("mail_sent_at", admin.EmptyFieldListFilter))
    list_select_related = ("user",)
    search_fields = ("user__email", "user__name")

    @admin.display(ordering="user__email")
    def address(self, signup: Signup) -> str:
        """Return whose signup it is."""
        return signup.user.email


@admin.register(SignupRequest)
class SignupRequestAdmin(ReadOnlyAdmin):
    """Every POST. Its password stays hidden, and its token: who has it reads the status page."""

    list_display = ("id", "signup_id", "job_id", "created_at")
    fields = ("signup", "name", "job_id", "created_at")
    search_fields = ("=id", "=job__id", "signup__user__email")
