"""Have an order paid."""

from django.conf import settings

from project.billing.models import Order, State
from tasks.api import enqueue


class NotPayable(Exception):
    """Say in words why an order is not charged."""


def pay(order_id: int):
    """Enqueue the charge of an order in the caller's transaction, and return its job.

    Shape: asked for twice, the same job while it has not ended; `is_new` tells.
    Raises: NotPayable; Order.DoesNotExist.
    """
    if not (settings.PAYMENT_URL and settings.PAYMENT_KEY):
        raise NotPayable("No payment provider is set: set PAYMENT_URL and PAYMENT_KEY.")
    order = Order.objects.get(id=order_id)
    if order.state in (State.PAID, State.REFUSED):
        raise NotPayable(f"Order {order_id} is {order.state} already.")
    return enqueue("billing.charge", order_id=order_id, unique_key=order.key, unique_scope="live")
