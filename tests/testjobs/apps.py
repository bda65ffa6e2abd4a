"""Jobs that exist for tests only."""

from django.apps import AppConfig


class TestJobsConfig(AppConfig):
    """Small kinds whose effects tests can count."""

    name = "tests.testjobs"
    default_auto_field = "django.db.models.BigAutoField"
