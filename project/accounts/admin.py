"""Users in Django admin: by address."""

from contextlib import suppress

from django.contrib import admin
from django.contrib.auth.admin import UserAdmin as StockUserAdmin
from django.contrib.auth.forms import AdminUserCreationForm, UserChangeForm
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest

from project.accounts.addresses import canonical_email
from project.accounts.models import User


class AddForm(AdminUserCreationForm):
    """Address, name and password twice; the address is canonical after User.clean."""

    class Meta:
        model = User
        fields = ("email", "name")


class ChangeForm(UserChangeForm):
    """Everything but the password, which has a page of its own."""

    class Meta:
        model = User
        fields = "__all__"


@admin.register(User)
class UserAdmin(StockUserAdmin):
    """Add, change, search, set a password."""

    add_form = AddForm
    form = ChangeForm
    list_display = ("email", "name", "is_staff", "is_active", "date_joined")
    search_fields = ("email", "name")
    search_help_text = "An address, however it is spelled, or part of an address or name."
    ordering = ("email",)
    readonly_fields = ("last_login", "date_joined")
    fieldsets = (
        (None, {"fields": ("email", "name", "password")}),
        ("Rights", {"fields": ("is_active", "is_staff", "is_superuser", "groups", "user_permissions")}),
        ("Times", {"fields": ("last_login", "date_joined")}),
    )
    add_fieldsets = (
        (
            None,
            {"classes": ("wide",), "fields": ("email", "name", "usable_password", "password1", "password2")},
        ),
    )

    def get_search_results(self, request: HttpRequest, queryset: QuerySet, search_term: str):
        """Search by the stored spelling when a whole address was typed."""
        with suppress(ValidationError):  # part of an address or a name: search as typed
            search_term = canonical_email(search_term)
        return super().get_search_results(request, queryset, search_term)
