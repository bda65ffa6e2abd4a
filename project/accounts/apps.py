"""The account app."""

from django.apps import AppConfig


class AccountsConfig(AppConfig):
    """Users by e-mail address."""

    name = "project.accounts"
    verbose_name = "Accounts"
    default_auto_field = "django.db.models.BigAutoField"
