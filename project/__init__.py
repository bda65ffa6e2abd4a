"""The Django project. Celery's app is loaded with it, so that @job finds it in every process."""

from project.celery import app as celery_app

__all__ = ["celery_app"]
