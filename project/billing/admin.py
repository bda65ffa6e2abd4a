"""Orders in Django admin, to look at, and to have charged."""

from django.contrib import admin, messages
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest

from project.billing.models import Order
from project.billing.services import NotPayable, pay

AT_ONCE = 100  # orders that one click charges


@admin.register(Order)
class OrderAdmin(admin.ModelAdmin):
    """Code makes orders, the job changes them; a person may only ask for the charge."""

    list_display = ("id", "amount_minor", "currency", "state", "refusal", "charging_at", "settled_at", "created_at")
    list_filter = ("state",)
    search_fields = ("=id", "=payment_key", "=charge_id")
    exclude = ("card_token",)
    actions = ["charge"]

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Refuse: the shop makes orders."""
        return False

    def has_change_permission(self, request: HttpRequest, obj=None) -> bool:
        """Refuse: an amount that changes while it is charged is charged wrongly."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj=None) -> bool:
        """Refuse: it is the proof of a payment."""
        return False

    def has_charge_permission(self, request: HttpRequest) -> bool:
        """Allow it to whoever may change orders by Django's permissions."""
        return request.user.has_perm("billing.change_order")

    @admin.action(description="Charge (unpaid orders)", permissions=["charge"])
    def charge(self, request: HttpRequest, orders: QuerySet) -> None:
        """Enqueue the charge of each selected order, and say what came of it."""
        ids = list(orders.order_by("id").values_list("id", flat=True)[: AT_ONCE + 1])
        if len(ids) > AT_ONCE:
            self.message_user(request, f"Select at most {AT_ONCE} orders; nothing was charged.", messages.ERROR)
            return
        for order_id in ids:
            try:
                with transaction.atomic():
                    job = pay(order_id)
            except NotPayable as error:
                self.message_user(request, str(error), messages.WARNING)
            else:
                is_there = "" if job.is_new else f" It was there already and is {job.state}: look at it under Jobs."
                self.log_change(request, Order(pk=order_id), f"Asked for the charge: job {job.id}.")
                self.message_user(request, f"Order {order_id} is charged by job {job.id}.{is_there}")
