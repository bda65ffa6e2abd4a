"""The database's settings: where the default file lies, and what every PostgreSQL session is bounded by."""

import pytest
from django.db import connection

from project import database

POSTGRESQL = "postgresql://kit@db.example.com/kit"


def configured(tmp_path, url: str = "", **limits: int) -> dict:
    """Return the settings for an address."""
    limits = {"statement_timeout_s": 0, "lock_timeout_s": 10} | limits
    return database.from_url(url, default_file=tmp_path / "db.sqlite3", **limits)


@pytest.mark.parametrize("folder", ["#1", "why?", "50%25", "a b"])
def test_default_file_lies_in_its_folder_whatever_the_name(tmp_path, folder):
    path = tmp_path / folder / "db.sqlite3"
    found = database.from_url("", default_file=path, statement_timeout_s=0, lock_timeout_s=10)

    assert found["NAME"] == str(tmp_path / folder / "db.sqlite3")
    assert (tmp_path / folder).is_dir()


def test_options_of_the_address_go_before_our_own(tmp_path):
    found = configured(tmp_path, POSTGRESQL + "?options=-c%20search_path%3Dkit&connect_timeout=2&sslmode=require")

    options = found["OPTIONS"]
    assert (options["connect_timeout"], options["sslmode"], options["keepalives_idle"]) == (2, "require", 5)
    assert options["options"].startswith("-c lock_timeout=10s")
    assert options["options"].endswith("-c search_path=kit")


def test_limits_of_a_process_are_told_to_the_server(tmp_path):
    """What ALTER ROLE sets would be lost behind them."""
    found = configured(tmp_path, POSTGRESQL, statement_timeout_s=10, lock_timeout_s=3)["OPTIONS"]["options"]

    assert "-c statement_timeout=10s" in found
    assert found.count("lock_timeout=") == 1 and "-c lock_timeout=3s" in found


@pytest.mark.rung("postgresql+filesystem", "postgresql+redis")
@pytest.mark.django_db
@pytest.mark.parametrize(
    ("name", "value"),
    [("lock_timeout", "10s"), ("idle_in_transaction_session_timeout", "1min"), ("statement_timeout", "0")],
)
def test_new_session_is_bounded(name, value):
    with connection.copy().cursor() as cursor:
        cursor.execute(f"SHOW {name}")

        assert cursor.fetchone() == (value,)


@pytest.mark.rung("postgresql+filesystem", "postgresql+redis")
@pytest.mark.django_db
def test_new_connection_notices_a_dead_host():
    connection.ensure_connection()

    found = connection.connection.info.get_parameters()

    wanted = {name: str(value) for name, value in database.POSTGRESQL.items()}
    wanted.pop("keepalives")  # 1 is libpq's default, which it does not list
    assert wanted.items() <= found.items()
