"""The question that nginx asks before it lets anybody through to Flower."""

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission

pytestmark = pytest.mark.django_db

DOOR = "/staff-access/"
SITE = "https://kit.example.com"


@pytest.fixture(autouse=True)
def site(settings):
    """Answer as the site of this address."""
    settings.SITE_URL = SITE


def sign_in(client, *permissions: str, **fields):
    """Sign in as a user with the named permissions."""
    user = get_user_model().objects.create_user(email="who@example.com", password="x" * 12, **fields)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client.force_login(user)


def test_stranger_is_told_to_sign_in(client):
    answer = client.get(DOOR)

    assert answer.status_code == 401
    assert "no-store" in answer["Cache-Control"]


@pytest.mark.parametrize(
    "fields, status", [({"is_staff": True}, 204), ({}, 401), ({"is_staff": True, "is_active": False}, 401)]
)
def test_only_active_staff_may_look(client, fields, status):
    sign_in(client, **fields)

    answer = client.get(DOOR)

    assert answer.status_code == status
    assert "no-store" in answer["Cache-Control"]


def test_looking_costs_two_queries(client, django_assert_num_queries):
    sign_in(client, is_staff=True)

    with django_assert_num_queries(2):
        client.get(DOOR)


@pytest.mark.parametrize(
    "headers, status",
    [
        ({"Origin": SITE}, 204),
        ({"Referer": f"{SITE}/flower/workers"}, 204),
        ({}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "https://kit.example.com.evil.example"}, 403),
        ({"Origin": "http://kit.example.com"}, 403),
        ({"Origin": "https://evil.example", "Referer": f"{SITE}/"}, 403),
    ],
)
def test_command_must_come_from_a_page_of_this_site(client, headers, status):
    sign_in(client, "change_job", is_staff=True)

    answer = client.get(DOOR, headers={"X-Original-Method": "POST"} | headers)

    assert answer.status_code == status


def test_command_needs_the_right_to_change_jobs(client):
    sign_in(client, "view_job", is_staff=True)

    answer = client.get(DOOR, headers={"X-Original-Method": "POST", "Origin": SITE})

    assert answer.status_code == 403
