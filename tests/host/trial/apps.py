"""The trial feature."""

from django.apps import AppConfig


class TrialConfig(AppConfig):
    """Jobs that behave badly, on purpose."""

    name = "project.trial"
