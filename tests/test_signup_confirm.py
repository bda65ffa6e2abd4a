"""The link in the mail confirms the address; twice is harmless, too late or forged says what to do."""

from datetime import timedelta

import pytest
from django.core.signing import TimestampSigner, b62_encode
from django.utils import timezone

from project.signup.models import LINK_VALID_S, Signup
from project.signup.services import sign_up

pytestmark = pytest.mark.django_db

ANN = {"name": "Ann", "email": "ann@example.com", "password": "seven blue kettles"}


class AgedSigner(TimestampSigner):
    """Sign as of a second too long ago."""

    def timestamp(self) -> str:
        """Return an old time as Django writes it."""
        return b62_encode(int(timezone.now().timestamp()) - LINK_VALID_S - 1)


def test_link_confirms_and_twice_is_harmless(client):
    signup = sign_up(**ANN).signup
    link = f"/confirm/{signup.signed_id()}/"

    first, second = client.get(link), client.get(link)

    assert (first.status_code, second.status_code) == (200, 200)
    assert "Your address is confirmed" in first.content.decode()
    assert "It was confirmed before." in second.content.decode()


def test_second_use_of_a_link_keeps_the_first_time(client):
    signup = sign_up(**ANN).signup
    first_time = timezone.now() - timedelta(days=1)
    Signup.objects.update(confirmed_at=first_time)

    client.get(f"/confirm/{signup.signed_id()}/")

    assert Signup.objects.get().confirmed_at == first_time


def test_looking_at_a_link_with_head_confirms_nothing(client):
    signup = sign_up(**ANN).signup

    response = client.head(f"/confirm/{signup.signed_id()}/")

    assert response.status_code == 405
    assert Signup.objects.get().confirmed_at is None


def test_link_older_than_three_days_is_410_and_says_what_to_do(client):
    signup = sign_up(**ANN).signup
    old = AgedSigner(salt="signup.confirm").sign(signup.pk)

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
    signup = sign_up(**ANN).signup

    response = client.get(f"/confirm/{TimestampSigner().sign(signup.pk)}/")

    assert response.status_code == 400
    assert Signup.objects.get().confirmed_at is None


def test_link_of_a_deleted_account_is_410(client):
    signup = sign_up(**ANN).signup
    link = f"/confirm/{signup.signed_id()}/"
    signup.user.delete()

    response = client.get(link)

    assert response.status_code == 410
