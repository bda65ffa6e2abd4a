"""The signup feature."""

from django.apps import AppConfig


class SignupConfig(AppConfig):
    """A form, a transaction, a job, a mail."""

    name = "project.signup"
    verbose_name = "Signup"
    default_auto_field = "django.db.models.BigAutoField"
