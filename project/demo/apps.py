"""The demo: pages and commands that production does not have."""

from django.apps import AppConfig


class DemoConfig(AppConfig):
    """Installed only when ENVIRONMENT is demo."""

    name = "project.demo"
