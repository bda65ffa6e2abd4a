"""One address is one account, however it is spelled; staff manage accounts in Django admin."""

import pytest
from django.contrib.auth import authenticate
from django.contrib.auth.hashers import Argon2PasswordHasher
from django.core.exceptions import ValidationError
from django.urls import reverse

from project.accounts.addresses import canonical_email
from project.accounts.models import User

PASSWORD = "seven blue kettles"

SPELLINGS = [
    ("Ann@Example.COM", "ann@example.com"),
    ("  ann@example.com  ", "ann@example.com"),
    ("ann+news@example.com", "ann+news@example.com"),
    ("ann@müller.example", "ann@xn--mller-kva.example"),
    ("ann@MÜLLER.example", "ann@xn--mller-kva.example"),
    ("ann@mu\u0308ller.example", "ann@xn--mller-kva.example"),
    ("ann@XN--MLLER-KVA.example", "ann@xn--mller-kva.example"),
    ("ann@straße.example", "ann@xn--strae-oqa.example"),
    ("ann@例え。jp", "ann@xn--r8jz45g.jp"),
    ("ａｎｎ@example.com", "ann@example.com"),
]
NO_ADDRESSES = [
    "",
    "ann",
    "ann@",
    "@other.example",
    "ann@example",
    "ann@example..com",
    "ann@example.com.",
    "ann@ex ample.com",
    "ann@[127.0.0.1]",
    '"ann b"@example.com',
    "änn@example.com",
    "ı@example.com",
    "ann@example.com\nBcc: bob@example.com",
    "ann@example.com\r\n",
    "ann\x00@example.com",
    "ann\ud800@example.com",
    "ann\u202e@example.com",
    "a" * 310 + "@example.com",
    "ann@" + "ü" * 70 + ".example",
    "ann@" + "ü." * 120 + "example",
]


@pytest.fixture
def staff(client, db):
    """Return a signed-in superuser."""
    user = User.objects.create_superuser("Boss@Example.com", PASSWORD)
    client.force_login(user)
    return user


@pytest.mark.parametrize(("typed", "canonical"), SPELLINGS)
def test_an_address_has_one_spelling(typed, canonical):
    assert canonical_email(typed) == canonical
    assert canonical_email(canonical) == canonical


@pytest.mark.parametrize("typed", NO_ADDRESSES)
def test_what_is_no_address_is_refused_in_words(typed):
    with pytest.raises(ValidationError) as caught:
        canonical_email(typed)

    assert caught.value.messages[0].endswith(".")
    assert typed == "" or typed not in str(caught.value)


@pytest.mark.django_db
@pytest.mark.parametrize("typed", ["ANN@müller.example", "ann@xn--mller-kva.example"])
def test_sign_in_takes_every_spelling(typed):
    user = User.objects.create_user("Ann@Müller.example", PASSWORD)

    found = authenticate(username=typed, password=PASSWORD)

    assert found == user


@pytest.mark.django_db
def test_sign_in_with_nonsense_finds_nobody():
    with pytest.raises(User.DoesNotExist):
        User.objects.get_by_natural_key("no address")


@pytest.mark.django_db
def test_user_without_password_cannot_sign_in():
    user = User.objects.create_user("ann@example.com")

    assert not user.has_usable_password()
    assert not user.is_staff


@pytest.mark.django_db
def test_hash_takes_19_mib_and_one_made_with_more_is_made_anew_at_sign_in(settings):
    settings.PASSWORD_HASHERS = [name for name in settings.PASSWORD_HASHERS if "MD5" not in name]
    user = User.objects.create_user("ann@example.com")
    User.objects.filter(pk=user.pk).update(password=Argon2PasswordHasher().encode(PASSWORD, "some salt of long"))

    found = authenticate(username="ann@example.com", password=PASSWORD)

    assert found == user
    assert User.objects.get().password.startswith("argon2$argon2id$v=19$m=19456,t=2,p=1$")


@pytest.mark.django_db
def test_text_of_a_user_has_no_personal_data():
    user = User.objects.create_user("ann@example.com", name="Ann")

    assert str(user) == f"user {user.pk}"


def test_admin_adds_a_user_under_its_canonical_address(client, staff):
    form = {"email": "Ann@Müller.example", "name": "Ann", "usable_password": "true"}
    form |= {"password1": PASSWORD, "password2": PASSWORD}

    response = client.post(reverse("admin:accounts_user_add"), form)

    assert response.status_code == 302
    assert User.objects.get(email="ann@xn--mller-kva.example").check_password(PASSWORD)


def test_admin_refuses_an_address_that_is_taken_in_another_spelling(client, staff):
    form = {"email": "BOSS@example.com", "usable_password": "true", "password1": PASSWORD, "password2": PASSWORD}

    response = client.post(reverse("admin:accounts_user_add"), form)

    assert "A user with this address exists already." in response.content.decode()
    assert User.objects.count() == 1


def test_admin_changes_a_user(client, staff):
    user = User.objects.create_user("ann@example.com", PASSWORD)
    url = reverse("admin:accounts_user_change", args=[user.pk])

    response = client.post(url, {"email": "New@example.com", "name": "Ann", "is_active": "on"})

    user.refresh_from_db()
    assert response.status_code == 302
    assert (user.email, user.name) == ("new@example.com", "Ann")
    assert user.check_password(PASSWORD)


def test_admin_sets_a_password(client, staff):
    user = User.objects.create_user("ann@example.com")
    form = {"usable_password": "true", "password1": PASSWORD, "password2": PASSWORD}

    response = client.post(reverse("admin:auth_user_password_change", args=[user.pk]), form)

    user.refresh_from_db()
    assert response.status_code == 302
    assert user.check_password(PASSWORD)


@pytest.mark.parametrize("typed", ["ann@MÜLLER.example", "ann@xn--mller-kva.example", "ann@"])
def test_admin_finds_a_user_by_address(client, staff, typed):
    User.objects.create_user("ann@müller.example", PASSWORD)

    response = client.get(reverse("admin:accounts_user_changelist"), {"q": typed})

    assert [user.email for user in response.context["cl"].result_list] == ["ann@xn--mller-kva.example"]


def test_admin_shows_a_user(client, staff):
    response = client.get(reverse("admin:accounts_user_change", args=[staff.pk]))

    assert "boss@example.com" in response.content.decode()
