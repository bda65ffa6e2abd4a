"""No log line of a refusal or an error carries a live link or the address of a status page."""

import logging

import pytest

from project.signup import services
from project.signup.services import sign_up

pytestmark = pytest.mark.django_db

ANN = {"name": "Ann", "email": "ann@example.com", "password": "seven blue kettles"}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("post", "/confirm/{link}/"),
        ("put", "/signup/{token}/"),
        ("put", "/signup/{token}/status"),
        ("get", "/signup/{token}/more"),
        ("get", "/confirm/x/{link}/"),
        ("get", "/confirm/{link}x/"),
        ("head", "/signup/{token}x/"),
    ],
)
def test_refused_path_is_logged_without_its_secret(client, caplog, method, path):
    request = sign_up(**ANN)
    secrets = {"token": request.token, "link": request.signed_link()}

    response = getattr(client, method)(path.format(**secrets))

    assert response.status_code >= 400
    assert path.partition("{")[0].removesuffix("x/") + "..." in caplog.text
    assert not any(secret in caplog.text for secret in secrets.values())


def test_server_error_is_logged_without_the_link(client, caplog, monkeypatch):
    def broken(signed, now):
        raise RuntimeError("the database is away")

    monkeypatch.setattr(services, "confirm", broken)
    client.raise_request_exception = False
    link = sign_up(**ANN).signed_link()

    response = client.get(f"/confirm/{link}/")

    assert response.status_code == 500
    assert "Internal Server Error: /confirm/..." in caplog.text and "the database is away" in caplog.text
    assert link not in caplog.text


def test_other_paths_are_logged_whole(client, caplog):
    with caplog.at_level(logging.WARNING):
        client.get("/nowhere/")

    assert "Not Found: /nowhere/" in caplog.text
