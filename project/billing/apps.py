"""The billing feature."""

from django.apps import AppConfig


class BillingConfig(AppConfig):
    """Charge an order once, whatever happens on the way."""

    name = "project.billing"
    verbose_name = "Billing"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self):
        """Register the checks."""
        from project.billing import checks  # noqa: F401
