"""Charge an order once: a mark before, a mark after, and in between the provider is asked before it is asked again."""

from datetime import datetime

from django.conf import settings

from project.billing import provider
from project.billing.models import Order, State
from tasks.api import PermanentError, RetryLater, database_now, job

PENDING_S = 30
TIME_LIMIT_S = 45  # below PAYMENT_UNSURE_S, see checks.py


@job("billing.charge", max_attempts=12, backoff_cap_s=3_600, soft_time_limit_s=35, time_limit_s=TIME_LIMIT_S)
def charge(order_id: int) -> None:
    """Bring an order to its end, paid or refused.

    Raises: PermanentError for a refused card; RetryLater while the end is not known; as provider.charge.
    """
    now = database_now()  # before the provider is asked: what it charges later it cannot tell
    order = Order.objects.get(id=order_id)
    if order.state == State.UNPAID:
        settle(order, asked_for(order, now))
    elif order.state == State.CHARGING:  # an earlier run died, or never heard the answer
        settle(order, provider.find(order.key) or asked_for(order, now))
    elif order.state == State.REFUSED:
        raise refused(order.refusal)


def asked_for(order: Order, now: datetime) -> provider.Charge:
    """Mark that the provider is asked to charge, and ask it; take the mark back where nothing can have been charged.

    Raises: RetryLater while an earlier request may still be under way.
    """
    if order.charging_at:
        left_s = settings.PAYMENT_UNSURE_S - (now - order.charging_at).total_seconds()
        if left_s > 0:
            raise RetryLater(left_s, "the provider does not know the charge yet")
    begun_at = database_now()
    if not Order.objects.begin(order, begun_at):
        raise RetryLater(PENDING_S, "another run is charging")
    try:
        return provider.charge(order)
    except provider.NOTHING_CHARGED:
        Order.objects.release(order.id, begun_at)
        raise


def settle(order: Order, charge: provider.Charge) -> None:
    """Write down what the provider says."""
    now = database_now()
    if charge.status == "paid":
        Order.objects.settle(order.id, State.PAID, now, charge_id=charge.id)
    elif charge.status == "refused":
        Order.objects.settle(order.id, State.REFUSED, now, charge_id=charge.id, refusal=charge.reason)
        raise refused(charge.reason)
    else:
        raise RetryLater(PENDING_S, "the provider has not decided yet")


def refused(reason: str) -> PermanentError:
    """Return the error of a refused card, with the provider's word for it."""
    return PermanentError(f"The card was refused: {reason or 'no reason given'}. Make a new order with another card.")
