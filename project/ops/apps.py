"""What a deploy asks of the site."""

from django.apps import AppConfig


class OpsConfig(AppConfig):
    """Health, the smoke test, and whether a migration suits the code that still runs."""

    name = "project.ops"
    verbose_name = "Operations"
