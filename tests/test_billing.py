"""An order is charged once: against a real provider over HTTP, which can fail before, during and after charging."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import Permission
from django.db import IntegrityError, transaction

from project.billing import provider as api
from project.billing.checks import unsure_outlasts_a_charge
from project.billing.models import Order, State
from project.billing.services import NotPayable, pay
from project.billing.tasks import charge
from tasks.api import PermanentError, RetryLater, database_now
from tasks.models import Job
from tests.payments import PaymentProvider
from tests.provider import Reply

pytestmark = pytest.mark.django_db


@pytest.fixture(params=[True, False], ids=["deduplicating", "careless"])
def provider(request, settings):
    """Give a provider of either kind, known to the settings."""
    with PaymentProvider(has_deduplication=request.param) as running:
        settings.PAYMENT_URL, settings.PAYMENT_KEY = running.url, "test-key"
        yield running


@pytest.fixture
def order() -> Order:
    """Return an unpaid order."""
    return Order.objects.create(amount_minor=1250, card_token="card-1")


def now(order: Order) -> Order:
    """Return the order as it stands."""
    return Order.objects.get(id=order.id)


def let_time_pass(order: Order) -> None:
    """Make the last request for the charge an hour old."""
    Order.objects.filter(id=order.id).update(charging_at=database_now() - timedelta(hours=1))


def test_order_is_charged_and_marked(provider, order):
    charge(order.id)

    paid = now(order)
    assert provider.book == [(f"payment:order-{order.id}", 1250)]
    assert (paid.state, paid.payment_key, paid.charge_id) == (State.PAID, paid.key, f"charge-of-{paid.key}")


def test_paid_order_is_not_charged_again(provider, order):
    charge(order.id)

    charge(order.id)

    assert len(provider.book) == 1


@pytest.mark.parametrize("fault", ["drop_after", "500_after"])
def test_charge_whose_answer_was_lost_is_found_and_not_made_again(provider, order, fault):
    provider.next_replies = [fault]
    with pytest.raises(api.OutcomeUnknown):
        charge(order.id)
    between = now(order).state

    charge(order.id)

    assert (between, now(order).state) == (State.CHARGING, State.PAID)
    assert len(provider.book) == 1


@pytest.mark.parametrize("fault", ["drop_before", "500_before", Reply(409)])
def test_charge_that_the_provider_does_not_know_is_made_once_it_cannot_be_under_way(provider, order, fault):
    provider.next_replies = [fault]
    with pytest.raises(api.OutcomeUnknown):
        charge(order.id)
    with pytest.raises(RetryLater) as soon:
        charge(order.id)
    before = list(provider.book)
    let_time_pass(order)

    charge(order.id)

    assert 110 < soon.value.seconds <= 120
    assert (before, len(provider.book), now(order).state) == ([], 1, State.PAID)


def test_question_that_fails_leaves_the_outcome_unknown(provider, order):
    provider.next_replies = ["drop_after", "500_before", Reply(429, headers={"Retry-After": "7"})]
    for error in (api.OutcomeUnknown, api.OutcomeUnknown, RetryLater):
        with pytest.raises(error):
            charge(order.id)
        assert now(order).state == State.CHARGING

    charge(order.id)

    assert len(provider.book) == 1


def test_refused_card_ends_the_order_and_is_told(provider, order):
    Order.objects.update(card_token="card-without-money")

    with pytest.raises(PermanentError) as first:
        charge(order.id)
    with pytest.raises(PermanentError) as again:
        charge(order.id)

    assert str(first.value) == str(again.value)
    assert str(first.value).startswith("The card was refused: insufficient_funds.")
    assert (now(order).state, now(order).refusal, provider.book) == (State.REFUSED, "insufficient_funds", [])


def test_refusal_whose_answer_was_lost_is_found(provider, order):
    Order.objects.update(card_token="card-without-money")
    provider.next_replies = ["drop_after"]
    with pytest.raises(api.OutcomeUnknown):
        charge(order.id)

    with pytest.raises(PermanentError):
        charge(order.id)

    assert now(order).state == State.REFUSED


@pytest.mark.parametrize(
    ("reply", "error", "says"),
    [
        (Reply(429, headers={"Retry-After": "7"}), RetryLater, "429"),
        (Reply(401), PermanentError, "answers 401: look at PAYMENT_URL and PAYMENT_KEY"),
        (Reply(302, headers={"Location": "/elsewhere"}), PermanentError, "answers 302"),
    ],
)
def test_refused_request_is_known_to_have_charged_nothing(provider, order, reply, error, says):
    provider.next_replies = [reply]
    with pytest.raises(error, match=says) as refused:
        charge(order.id)
    between = now(order)

    charge(order.id)

    assert getattr(refused.value, "seconds", 7) == 7
    assert (between.state, between.charging_at, now(order).state) == (State.UNPAID, None, State.PAID)


def test_provider_that_cannot_be_reached_has_charged_nothing(provider, order, settings):
    settings.PAYMENT_URL = "http://127.0.0.1:9"

    with pytest.raises(api.Unreachable):
        charge(order.id)

    assert now(order).state == State.UNPAID


def test_provider_that_does_not_answer_in_time_may_have_charged(provider, order, monkeypatch):
    monkeypatch.setattr(api, "TIMEOUT", 0.1)
    provider.slow_s = 0.6

    with pytest.raises(api.OutcomeUnknown, match="ReadTimeout"):
        charge(order.id)

    assert now(order).state == State.CHARGING


@pytest.mark.parametrize("body", [{}, {"id": 1}, {"status": "paid"}])
def test_answer_that_tells_of_no_charge_is_no_answer(provider, order, body):
    provider.next_replies = [Reply(200, body)]

    with pytest.raises(api.OutcomeUnknown, match="something else than a charge"):
        charge(order.id)

    assert now(order).state == State.CHARGING


def test_charge_that_is_not_decided_is_asked_for_later(provider, order):
    provider.next_replies = [Reply(201, {"id": "c1", "status": "pending"})]
    with pytest.raises(RetryLater):
        charge(order.id)
    provider.book.append((order.key, 1250))

    charge(order.id)

    assert (now(order).state, len(provider.book)) == (State.PAID, 1)


def test_of_two_runs_that_read_the_same_order_one_begins(order):
    same = now(order)

    begun = [Order.objects.begin(read, database_now()) for read in (order, same)]

    assert begun == [1, 0]


def test_table_refuses_a_second_order_with_the_same_key(order):
    Order.objects.begin(order, database_now())
    other = Order.objects.create(amount_minor=1, card_token="card-1")

    with pytest.raises(IntegrityError), transaction.atomic():
        Order.objects.filter(id=other.id).update(
            state=State.CHARGING, charging_at=database_now(), payment_key=order.key
        )


def test_asking_twice_makes_one_job_that_holds_only_the_id(provider, order):
    first, second = pay(order.id), pay(order.id)

    job = Job.objects.get()
    assert (first.id, second.id) == (job.id, job.id)
    assert (job.unique_key, job.arguments) == (f"payment:order-{order.id}", {"order_id": order.id})


def test_order_whose_charge_was_cancelled_can_be_charged_again(provider, order):
    first = pay(order.id)
    Job.objects.cancel(first.id, "user 1", database_now())

    assert pay(order.id).is_new


def test_rolled_back_transaction_leaves_no_charge(provider, order):
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        pay(order.id)
        raise ZeroDivisionError

    assert not Job.objects.exists()


def test_nothing_is_enqueued_without_a_provider(order, settings):
    settings.PAYMENT_URL = ""

    with pytest.raises(NotPayable, match="set PAYMENT_URL and PAYMENT_KEY"):
        pay(order.id)

    assert not Job.objects.exists()


@pytest.mark.parametrize(("seconds", "flaws"), [(45, ["billing.W001"]), (46, [])])
def test_check_tells_of_a_wait_that_a_charge_may_outlast(settings, seconds, flaws):
    settings.PAYMENT_UNSURE_S = seconds

    assert [flaw.id for flaw in unsure_outlasts_a_charge()] == flaws


def test_staff_look_at_orders_and_have_them_charged(admin_client, provider, order):
    page = "/admin/billing/order/"

    shown = [admin_client.get(page), admin_client.get(f"{page}{order.id}/change/")]
    refused = [admin_client.get(f"{page}add/"), admin_client.post(f"{page}{order.id}/change/", {"amount_minor": 1})]
    asked = admin_client.post(page, {"action": "charge", "_selected_action": [order.id]}, follow=True)

    assert [response.status_code for response in shown + refused] == [200, 200, 403, 403]
    assert "card-1" not in "".join(response.content.decode() for response in shown)
    assert f"Order {order.id} is charged by job {Job.objects.get().id}." in asked.content.decode()


def test_staff_who_may_only_look_cannot_charge(client, provider, order, django_user_model):
    user = django_user_model.objects.create_user("staff@example.com", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="view_order"))
    client.force_login(user)

    shown = client.get("/admin/billing/order/")
    client.post("/admin/billing/order/", {"action": "charge", "_selected_action": [order.id]})

    assert shown.status_code == 200
    assert not Job.objects.exists()


def test_staff_are_told_why_an_order_is_not_charged(admin_client, provider, order):
    charge(order.id)

    asked = admin_client.post(
        "/admin/billing/order/", {"action": "charge", "_selected_action": [order.id]}, follow=True
    )

    assert f"Order {order.id} is paid already." in asked.content.decode()
    assert not Job.objects.exists()
