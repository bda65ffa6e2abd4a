"""One transaction makes the user and the job; a known address changes nothing and looks the same."""

import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.contrib.auth.hashers import MD5PasswordHasher, check_password
from django.core.exceptions import ValidationError
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from project.accounts.models import User
from project.signup.models import Signup, SignupRequest
from project.signup.services import confirm, sign_up
from project.signup.tasks import confirmation_email
from tasks.api import RetryLater
from tasks.models import Job
from tests.kit import wait_until

ANN = {"name": "Ann", "email": "ann@example.com", "password": "seven blue kettles"}


class CountingHasher(MD5PasswordHasher):
    """Count what is hashed, and whether a transaction of sign_up's own was open."""

    algorithm = "counting"
    calls: list[bool] = []

    def encode(self, password: str, salt: str) -> str:
        """Hash fast, and take a note."""
        self.calls.append(connection.in_atomic_block)
        return super().encode(password, salt)


@pytest.fixture
def hashed(settings):
    """Return the list of hashings: one entry each, true when it was inside a transaction."""
    settings.PASSWORD_HASHERS = [f"{__name__}.CountingHasher", *settings.PASSWORD_HASHERS]
    CountingHasher.calls.clear()
    return CountingHasher.calls


def has_ended(request: SignupRequest) -> bool:
    """Run the handler; false when it asked to come back."""
    try:
        confirmation_email(request_id=request.id)
    except RetryLater:
        return False
    return True


def shapes(captured: CaptureQueriesContext) -> list[str]:
    """Return the statements without their values."""
    return [re.sub(r"'[^']*'|\b\d+\b|\"s\d+_x\d+\"", "?", query["sql"]) for query in captured.captured_queries]


@pytest.mark.django_db
def test_signup_writes_user_request_and_job():
    request = sign_up(**ANN)

    job = Job.objects.get()
    assert request.signup.user == User.objects.get(email="ann@example.com")
    assert (request.name, check_password(ANN["password"], request.password)) == ("Ann", True)
    assert (job.id, job.kind, job.queue, job.state) == (request.job_id, "signup.confirmation_email", "mail", "waiting")
    assert (job.arguments, job.unique_key) == ({"request_id": request.id}, f"confirm:{request.id}")


@pytest.mark.django_db
def test_job_of_a_signup_holds_no_personal_data():
    sign_up(**ANN)

    row = str(Job.objects.values().get())
    assert not any(value in row for value in ANN.values())


@pytest.mark.django_db
def test_known_address_keeps_its_name_and_password():
    first = sign_up(**ANN)
    confirm(first.signed_link(), timezone.now())

    second = sign_up(name="Eve", email="ANN@Example.com", password="quite another one")

    user = User.objects.get()
    assert (second.signup_id, user.name) == (first.signup_id, "Ann")
    assert user.check_password(ANN["password"])


@pytest.mark.django_db
def test_known_address_gets_a_request_and_a_job_of_its_own():
    first = sign_up(**ANN)

    second = sign_up(**ANN)

    assert first.token != second.token
    assert Job.objects.count() == 2


@pytest.mark.django_db
def test_account_made_by_hand_can_be_signed_up_for_without_a_change():
    user = User.objects.create_superuser("ann@example.com", "made by hand, really")

    request = sign_up(**ANN)

    user.refresh_from_db()
    assert request.signup.user == user
    assert user.check_password("made by hand, really") and user.is_superuser


@pytest.mark.django_db
@pytest.mark.parametrize("email", ["ann@MÜLLER.example", "Ann@xn--mller-kva.example", "ann@mu\u0308ller.example"])
def test_idn_domain_written_in_another_way_is_the_same_account(email):
    sign_up(**ANN | {"email": "ann@müller.example"})

    sign_up(**ANN | {"email": email})

    assert User.objects.count() == 1


@pytest.mark.django_db
def test_plus_address_is_an_account_of_its_own():
    sign_up(**ANN)

    sign_up(**ANN | {"email": "ann+news@example.com"})

    assert User.objects.count() == 2


@pytest.mark.django_db
def test_fresh_and_known_address_send_the_same_statements():
    with CaptureQueriesContext(connection) as fresh:
        sign_up(**ANN)

    with CaptureQueriesContext(connection) as known:
        request = sign_up(**ANN)
    confirm(request.signed_link(), timezone.now())
    with CaptureQueriesContext(connection) as confirmed:
        sign_up(**ANN)

    assert len(fresh) > 5
    assert shapes(fresh) == shapes(known) == shapes(confirmed)


@pytest.mark.django_db(transaction=True)
def test_password_is_hashed_once_before_the_transaction_for_fresh_and_known(hashed):
    sign_up(**ANN)

    sign_up(**ANN)

    assert hashed == [False, False]


@pytest.mark.django_db(transaction=True)
def test_rolled_back_signup_leaves_no_user_and_no_job():
    def give_up_after_signup():
        with transaction.atomic():
            sign_up(**ANN)
            raise RuntimeError("changed my mind")

    with pytest.raises(RuntimeError):
        give_up_after_signup()

    assert not User.objects.exists()
    assert not Signup.objects.exists()
    assert not SignupRequest.objects.exists()
    assert not Job.objects.exists()


@pytest.mark.django_db
def test_no_address_writes_nothing():
    with pytest.raises(ValidationError):
        sign_up(**ANN | {"email": "ann"})

    assert not User.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_ten_signups_of_one_address_at_once_make_one_user_ten_jobs_one_mail(mailoutbox):
    def in_a_thread(number: int) -> int:
        try:
            request = sign_up(**ANN | {"email": "ann@example.com".title() if number % 2 else ANN["email"]})
            wait_until(lambda: has_ended(request))
            return request.job_id
        finally:
            connection.close()

    with ThreadPoolExecutor(10) as pool:
        job_ids = list(pool.map(in_a_thread, range(10)))

    assert (User.objects.count(), Signup.objects.count(), SignupRequest.objects.count()) == (1, 1, 10)
    assert set(job_ids) == set(Job.objects.values_list("id", flat=True))
    assert len(job_ids) == 10 and len(mailoutbox) == 1


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["Анна Каренина", "李小龍", "مریم میرزاخانی", "O'Brien-Łuczak", "Zoë 🦊"])
def test_name_in_any_script_is_kept_as_written(name):
    sign_up(**ANN | {"name": name})

    assert User.objects.get().name == name
