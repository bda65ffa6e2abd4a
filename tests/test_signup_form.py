"""The form: answer at once, and say in words what is wrong; never a server error."""

import pytest
from django.test import Client

from project.accounts.models import User
from project.signup.models import SignupRequest

pytestmark = pytest.mark.django_db

ANN = {"name": "Ann", "email": "ann@example.com", "password": "seven blue kettles"}
REFUSED = [
    ({"name": ""}, "This field is required."),
    ({"name": "x" * 300}, "at most 150 characters"),
    ({"name": "x" * 1_000_000}, "at most 150 characters"),
    ({"name": "Ann\r\nBcc: eve@example.com"}, "no line breaks"),
    ({"name": "Ann\x1b[31m"}, "no line breaks"),
    ({"name": "Ann\u202ennA"}, "no line breaks"),
    ({"name": "Ann\x00"}, "Null characters are not allowed."),
    ({"email": "ann"}, "Enter an e-mail address like"),
    ({"email": "ann@example.com\nBcc: eve@example.com"}, "no line breaks"),
    ({"email": "a" * 308 + "@example.com"}, "at most 254 characters"),
    ({"email": "ann\x00@example.com"}, "Null characters are not allowed."),
    ({"password": "short"}, "at least 12 characters"),
    ({"password": "password1234"}, "too common"),
    ({"password": "p" * 257}, "at most 256 characters"),
    ({"password": "ann@example.com"}, "too similar to the e-mail address"),
    ({"password": "Ann Karenina 1", "name": "Ann Karenina"}, "too similar to the name"),
    ({"password": "seven blue\x00kettles"}, "Null characters are not allowed."),
]


def test_home_page_shows_the_form(client):
    response = client.get("/")

    assert response.status_code == 200
    assert "csrfmiddlewaretoken" in response.content.decode()


def test_signup_answers_303_to_a_page_nobody_can_guess(client):
    response = client.post("/", ANN)

    token = SignupRequest.objects.get().token
    assert (response.status_code, response["Location"]) == (303, f"/signup/{token}/")
    assert len(token) == 32


@pytest.mark.parametrize(("changes", "sentence"), REFUSED)
def test_bad_input_is_422_with_a_sentence_and_writes_nothing(client, changes, sentence):
    response = client.post("/", ANN | changes)

    assert response.status_code == 422
    assert sentence in response.content.decode()
    assert not User.objects.exists()


def test_refused_form_does_not_send_the_password_back(client):
    response = client.post("/", ANN | {"email": "ann"})

    assert ANN["password"] not in response.content.decode()


def test_empty_post_names_all_three_fields(client):
    response = client.post("/")

    assert response.content.decode().count("This field is required.") == 3


def test_bytes_that_are_no_text_are_no_server_error(client):
    body = b"name=%ff%fe\xff&email=ann%40example.com&password=%ed%a0%80seven+blue+kettles"

    response = client.post("/", body, content_type="application/x-www-form-urlencoded")

    assert response.status_code in (303, 422)


def test_name_is_escaped_in_the_form(client):
    response = client.post("/", ANN | {"name": "<script>alert(1)</script>", "email": "ann"})

    assert "<script>alert" not in response.content.decode()


def test_post_without_csrf_token_is_a_friendly_403():
    response = Client(enforce_csrf_checks=True).post("/", ANN)

    assert response.status_code == 403
    assert "load the page again" in response.content.decode()
    assert not User.objects.exists()


def test_form_with_its_csrf_token_is_taken():
    browser = Client(enforce_csrf_checks=True)
    token = browser.get("/").context["csrf_token"]

    response = browser.post("/", ANN | {"csrfmiddlewaretoken": str(token)})

    assert response.status_code == 303


def test_form_of_four_megabytes_is_400():
    browser = Client(enforce_csrf_checks=True)
    browser.get("/")

    response = browser.post("/", "name=" + "x" * 4_000_000, content_type="application/x-www-form-urlencoded")

    assert response.status_code == 400
    assert "send the form once more" in response.content.decode()


@pytest.mark.parametrize(("path", "allowed"), [("/", "GET, HEAD, POST"), ("/confirm/x/", "GET, HEAD")])
def test_wrong_method_is_405_and_says_which_are_right(path, allowed):
    response = Client(enforce_csrf_checks=True).put(path)

    assert (response.status_code, response["Allow"]) == (405, allowed)
    assert "Use GET" in response.content.decode()
