"""The job app."""

from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules


class TasksConfig(AppConfig):
    """Load every installed app's `tasks` module, so that each process knows every kind."""

    name = "tasks"
    verbose_name = "Background work"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self):
        """Register the handlers; enqueue needs their signatures also where no worker runs."""
        autodiscover_modules("tasks")
        from tasks import checks, filesystem, worker  # noqa: F401

        filesystem.install()
