"""Rules between settings and the charge, for `manage.py check`."""

from django.conf import settings
from django.core.checks import Warning as Flaw
from django.core.checks import register

from project.billing.tasks import TIME_LIMIT_S


@register
def unsure_outlasts_a_charge(**kwargs) -> list[Flaw]:
    """Tell of a time after which a request for a charge may still be under way."""
    if settings.PAYMENT_UNSURE_S > TIME_LIMIT_S:
        return []
    sentence = (
        f"PAYMENT_UNSURE_S is {settings.PAYMENT_UNSURE_S}, but a charge may take {TIME_LIMIT_S} s: an order could be "
        "charged twice."
    )
    return [Flaw(sentence, hint=f"Set it above {TIME_LIMIT_S}; the default is 120.", id="billing.W001")]
