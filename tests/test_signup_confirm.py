"""The link in the mail confirms the address; twice is harmless, too late or forged says what to do."""

from datetime import timedelta

import pytest
from django.contrib.auth import authenticate
from django.contrib.auth.hashers import make_password
from django.core.signing import TimestampSigner, b62_encode
from django.utils import timezone

from project.accounts.models import User
from project.signup.models import LINK_VALID_S, Signup, SignupRequest
from project.signup.services import sign_up

pytestmark = pytest.mark.django_db

EVE = {"name": "Eve", "email": "ann@example.com", "password": "nine grey herons"}
ANN = {"name": "Ann", "email": "ann@example.com", "password": "seven blue kettles"}


def link_of(request: SignupRequest) -> str:
    """Return the path that the mail of a request links to."""
    return f"/confirm/{request.signed_link()}/"


class AgedSigner(TimestampSigner):
    """Sign as of a second too long ago."""

    def timestamp(self) -> str:
        """Return an old time as Django writes it."""
        return b62_encode(int(timezone.now().timestamp()) - LINK_VALID_S - 1)


def test_link_confirms_and_twice_is_harmless(client):
    request = sign_up(**ANN)
    link = link_of(request)

    first, second = client.get(link), client.get(link)

    assert (first.status_code, second.status_code) == (200, 200)
    assert "Your address is confirmed" in first.content.decode()
    assert "It was confirmed before." in second.content.decode()


def test_second_use_of_a_link_keeps_the_first_time(client):
    request = sign_up(**ANN)
    first_time = timezone.now() - timedelta(days=1)
    Signup.objects.update(confirmed_at=first_time)

    client.get(link_of(request))

    assert Signup.objects.get().confirmed_at == first_time


def test_looking_at_a_link_with_head_confirms_nothing(client):
    request = sign_up(**ANN)

    response = client.head(link_of(request))

    assert response.status_code == 200
    assert Signup.objects.get().confirmed_at is None


def test_link_older_than_three_days_is_410_and_says_what_to_do(client):
    request = sign_up(**ANN)
    old = AgedSigner(salt="signup.confirm").sign(f"{request.pk}.{request.address_mark()}")

    response = client.get(f"/confirm/{old}/")

    assert response.status_code == 410
    assert "sign up again" in response.content.decode()
    assert Signup.objects.get().confirmed_at is None


@pytest.mark.parametrize("signed", ["x", "1", "1:x:y", "1:1tXyzA:forged", "%00", "%ff", "a" * 5000, "١:x:y"])
def test_forged_link_is_400_and_says_what_to_do(client, signed):
    response = client.get(f"/confirm/{signed}/")

    assert response.status_code == 400
    assert "sign up again" in response.content.decode()


def test_signature_made_for_something_else_confirms_nothing(client):
    request = sign_up(**ANN)
    signed = TimestampSigner().sign(f"{request.pk}.{request.address_mark()}")

    response = client.get(f"/confirm/{signed}/")

    assert response.status_code == 400
    assert Signup.objects.get().confirmed_at is None


def test_link_of_a_deleted_account_is_410(client):
    request = sign_up(**ANN)
    link = link_of(request)
    request.signup.user.delete()

    response = client.get(link)

    assert response.status_code == 410


def test_nobody_can_sign_in_before_the_address_is_confirmed():
    sign_up(**ANN)

    assert authenticate(username=ANN["email"], password=ANN["password"]) is None
    assert not User.objects.get().has_usable_password()


def test_confirmed_request_decides_name_and_password_whoever_signed_up_first(client):
    sign_up(**EVE)
    request = sign_up(**ANN)

    client.get(link_of(request))

    assert authenticate(username=ANN["email"], password=EVE["password"]) is None
    assert authenticate(username=ANN["email"], password=ANN["password"]).name == "Ann"


def test_only_the_first_confirmation_sets_the_password(client):
    request, other = sign_up(**ANN), sign_up(**EVE)
    client.get(link_of(request))

    response = client.get(link_of(other))

    assert "It was confirmed before." in response.content.decode()
    assert authenticate(username=ANN["email"], password=ANN["password"]).name == "Ann"


def test_after_the_confirmation_no_request_keeps_a_hash(client):
    request, _ = sign_up(**ANN), sign_up(**EVE)

    client.get(link_of(request))
    sign_up(**EVE)

    assert set(SignupRequest.objects.values_list("password", flat=True)) == {""}


@pytest.mark.parametrize(
    "made_by_hand",
    [
        {"password": make_password("made by hand, really")},
        {"password": make_password(None), "is_staff": True},
        {"password": make_password(None), "is_superuser": True},
    ],
    ids=["with a password", "staff", "superuser"],
)
def test_account_made_by_hand_is_not_taken_over_by_a_confirmation(client, made_by_hand):
    User.objects.create(email="ann@example.com", name="Boss", **made_by_hand)
    request = sign_up(**EVE)

    response = client.get(link_of(request))

    user = User.objects.get()
    assert response.status_code == 200
    assert (user.name, user.password) == ("Boss", made_by_hand["password"])


def test_link_to_an_address_that_was_changed_confirms_nothing(client):
    request = sign_up(**ANN)
    link = link_of(request)
    User.objects.update(email="other@example.com")

    response = client.get(link)

    assert response.status_code == 410
    assert "sign up again" in response.content.decode()
    assert Signup.objects.get().confirmed_at is None
    assert not User.objects.get().has_usable_password()
