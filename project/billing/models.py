"""An order, and how its payment stands. Each change of state is one conditional UPDATE."""

from datetime import datetime

from django.db import models
from django.db.models import Q


class State(models.TextChoices):
    """unpaid: nothing was asked for; charging: the provider may have charged; paid and refused: the end."""

    UNPAID = "unpaid", "unpaid"
    CHARGING = "charging", "charging"
    PAID = "paid", "paid"
    REFUSED = "refused", "refused"


class OrderQuerySet(models.QuerySet):
    """The verbs: each returns how many rows it changed, 0 or 1; 0 means that another run was first."""

    def begin(self, order: "Order", now: datetime) -> int:
        """Note that the provider may charge from now on. Transition: unpaid or charging -> charging.

        Shape: the order as it was read: of two runs that read the same, one begins.
        """
        found = self.filter(id=order.id, state=order.state, charging_at=order.charging_at)
        return found.filter(state__in=[State.UNPAID, State.CHARGING]).update(
            state=State.CHARGING, charging_at=now, payment_key=order.key
        )

    def release(self, order_id: int, begun_at: datetime) -> int:
        """Note that it is certain that nothing was charged. Transition: charging -> unpaid."""
        return self.filter(id=order_id, state=State.CHARGING, charging_at=begun_at).update(
            state=State.UNPAID, charging_at=None, payment_key=None
        )

    def settle(self, order_id: int, state: State, now: datetime, **facts: str) -> int:
        """Write the end. Transition: charging -> paid or refused."""
        return self.filter(id=order_id, state=State.CHARGING).update(state=state, settled_at=now, **facts)


class Order(models.Model):
    """What is to be paid once. The card itself never comes here, only the provider's name for it."""

    amount_minor = models.PositiveIntegerField(help_text="In the currency's smallest unit: 1250 is 12.50 EUR.")
    currency = models.CharField(max_length=3, default="EUR", help_text="Three letters, ISO 4217.")
    card_token = models.CharField(max_length=100, help_text="What the provider calls the card.")
    state = models.CharField(max_length=8, choices=State, default=State.UNPAID)
    payment_key = models.CharField(
        max_length=50, null=True, unique=True, help_text="Sent with the charge: the provider charges once for it."
    )
    charge_id = models.CharField(max_length=100, blank=True, help_text="The provider's number of the charge.")
    refusal = models.CharField(max_length=100, blank=True, help_text="Why the card was refused, in one word.")
    charging_at = models.DateTimeField(null=True, help_text="The provider was last asked to charge.")
    settled_at = models.DateTimeField(null=True, help_text="Paid or refused.")
    created_at = models.DateTimeField(auto_now_add=True, help_text="When it was ordered.")

    objects = OrderQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(name="order_amount_positive", condition=Q(amount_minor__gt=0)),
            models.CheckConstraint(
                name="order_state_whole",
                condition=Q(state="unpaid", payment_key=None, charging_at=None, settled_at=None)
                | Q(state="charging", payment_key__isnull=False, charging_at__isnull=False, settled_at=None)
                | Q(state="paid", payment_key__isnull=False, charging_at__isnull=False, settled_at__isnull=False)
                | Q(state="refused", payment_key__isnull=False, charging_at__isnull=False, settled_at__isnull=False),
            ),
        ]

    def __str__(self):
        return f"order {self.pk}"

    @property
    def key(self) -> str:
        """Return the idempotency key of its one payment."""
        return f"payment:order-{self.pk}"
