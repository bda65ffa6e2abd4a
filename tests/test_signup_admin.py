"""Staff look at signups in Django admin and change nothing there."""

import pytest

from project.signup.models import SignupRequest
from project.signup.services import sign_up

pytestmark = pytest.mark.django_db

ANN = {"name": "Ann", "email": "ann@example.com", "password": "seven blue kettles"}


@pytest.mark.parametrize("page", ["signup_signup", "signup_signuprequest"])
def test_admin_shows_signups_read_only_and_without_tokens_and_hashes(admin_client, page):
    request = sign_up(**ANN)
    row = request if page.endswith("request") else request.signup

    shown = [
        admin_client.get(f"/admin/signup/{page.split('_')[1]}/", {"q": "ann@example.com"}),
        admin_client.get(f"/admin/signup/{page.split('_')[1]}/{row.pk}/change/"),
    ]
    refused = [
        admin_client.get(f"/admin/signup/{page.split('_')[1]}/add/"),
        admin_client.post(f"/admin/signup/{page.split('_')[1]}/{row.pk}/change/", {}),
        admin_client.post(f"/admin/signup/{page.split('_')[1]}/{row.pk}/delete/", {"post": "yes"}),
    ]

    assert [response.status_code for response in shown] == [200, 200]
    assert [response.status_code for response in refused] == [403, 403, 403]
    secrets = (request.token, request.password)
    assert not any(secret in response.content.decode() for secret in secrets for response in shown)


def test_admin_deletes_a_user_with_its_signup(admin_client):
    user = sign_up(**ANN).signup.user

    response = admin_client.post(f"/admin/accounts/user/{user.pk}/delete/", {"post": "yes"})

    assert response.status_code == 302
    assert not SignupRequest.objects.exists()
