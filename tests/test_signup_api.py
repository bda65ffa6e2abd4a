"""The JSON endpoint does what the form does, and answers whatever it is sent with a status and a sentence."""

import json

import pytest
from django.contrib.auth.hashers import check_password
from django.test import Client

from project.accounts.models import User
from project.signup.models import SignupRequest
from tasks.models import Job

pytestmark = pytest.mark.django_db

ANN = {"name": "Ann", "email": "ann@example.com", "password": "seven blue kettles"}
MALFORMED = {
    "empty": b"",
    "no json": b"name=Ann",
    "cut off": b'{"name": "Ann"',
    "no utf-8": b'{"name": "\xff\xfe"}',
    "utf-16": json.dumps(ANN).encode("utf-16"),
    "array": b"[]",
    "string": b'"Ann"',
    "number": b"1",
    "null": b"null",
    "NaN": b'{"name": NaN}',
    "Infinity": b'{"name": -Infinity}',
    "huge number": b'{"name": ' + b"1" * 5000 + b"}",
    "name is null": json.dumps(ANN | {"name": None}).encode(),
    "name is a number": json.dumps(ANN | {"name": 1}).encode(),
    "email is a list": json.dumps(ANN | {"email": ["ann@example.com"]}).encode(),
    "password is an object": json.dumps(ANN | {"password": {}}).encode(),
    "deep array": b"[" * 10_000,
    "deep object": b'{"a":' * 1500 + b"1" + b"}" * 1500,
    "same field twice": b'{"name": "Ann", "name": "Eve", "email": "ann@example.com", "password": "seven blue kettles"}',
    "same field a thousand times": b"{" + b'"a": 1, ' * 1000 + b'"b": 1}',
}
INVALID = [
    ({"name": "Ann\ud800"}, "name"),
    ({"name": "Ann\x00"}, "name"),
    ({"name": "Ann\r\nBcc: eve@example.com"}, "name"),
    ({"name": "x" * 300}, "name"),
    ({"name": "   "}, "name"),
    ({"email": "\ud800@example.com"}, "email"),
    ({"email": "ann@example.com\nBcc: eve@example.com"}, "email"),
    ({"email": "a" * 308 + "@example.com"}, "email"),
    ({"password": "seven blue \ud800 kettles"}, "password"),
    ({"password": "seven blue \x00 kettles"}, "password"),
    ({"password": "short"}, "password"),
]


def post(body: bytes | dict, content_type: str = "application/json"):
    """Send a body as it is, an object as JSON."""
    data = json.dumps(body).encode() if isinstance(body, dict) else body
    client = Client(enforce_csrf_checks=True)
    return client.post("/api/signup", data, content_type=content_type, CONTENT_TYPE=content_type)  # also when empty


def test_signup_by_json_is_accepted_and_leads_to_its_status(client):
    response = post(ANN)

    token = SignupRequest.objects.get().token
    assert response.status_code == 202
    assert response.json()["status_url"] == f"http://testserver/signup/{token}/status"
    assert client.get(response.json()["status_url"]).json()["jobs"][0]["state"] == "waiting"
    assert client.get(response.json()["page_url"]).status_code == 200


def test_signup_by_json_makes_what_the_form_makes():
    post(ANN)

    user = User.objects.get()
    assert (user.name, user.email) == ("Ann", "ann@example.com")
    assert check_password(ANN["password"], SignupRequest.objects.get().password)
    assert Job.objects.get().kind == "signup.confirmation_email"


def test_known_address_gets_the_same_answer():
    answers = [post(ANN), post(ANN | {"email": "ANN@example.com"})]

    assert [answer.status_code for answer in answers] == [202, 202]
    assert [list(answer.json()) for answer in answers] == [["status_url", "page_url"]] * 2
    assert User.objects.count() == 1


@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED.keys())
def test_malformed_body_is_400_with_a_sentence(body):
    response = post(body)

    assert response.status_code == 400
    assert response.json()["errors"]["body"][0].endswith(".")
    assert not User.objects.exists()


@pytest.mark.parametrize(("changes", "field"), INVALID)
def test_invalid_value_is_422_and_names_the_field(changes, field):
    response = post(ANN | changes)

    assert response.status_code == 422
    assert list(response.json()["errors"]) == [field]
    assert not User.objects.exists()


def test_missing_fields_are_422_each_by_name():
    response = post({})

    assert response.status_code == 422
    assert list(response.json()["errors"]) == ["name", "email", "password"]


def test_body_of_ten_kibibytes_is_read_and_one_byte_more_is_413():
    padding = 10 * 1024 - len(json.dumps(ANN | {"more": ""}))

    answers = [post(ANN | {"more": "x" * (padding + extra)}) for extra in (0, 1)]

    assert [answer.status_code for answer in answers] == [202, 413]


@pytest.mark.parametrize("content_type", ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_other_content_type_is_415(content_type):
    response = post(json.dumps(ANN).encode(), content_type=content_type)

    assert response.status_code == 415
    assert "application/json" in response.json()["errors"]["content_type"][0]


def test_content_type_may_name_its_charset():
    response = post(ANN, content_type="Application/JSON; charset=utf-8")

    assert response.status_code == 202


@pytest.mark.parametrize("method", ["get", "head", "put", "patch", "delete", "options"])
def test_other_method_is_405_and_names_post(client, method):
    response = getattr(client, method)("/api/signup")

    assert (response.status_code, response["Allow"]) == (405, "POST")
    assert method == "head" or "Use POST." in response.json()["errors"]["method"][0]


def test_endpoint_sets_no_cookie_and_is_not_stored():
    response = post(ANN)

    assert not response.cookies
    assert "no-store" in response["Cache-Control"]
