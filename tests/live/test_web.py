"""The web process is told to stop while somebody waits for an answer."""

import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection, transaction

from project.signup.models import SignupRequest
from tests.kit import wait_until
from tests.load import sign_up
from tests.services import free_port

pytestmark = pytest.mark.rung("postgresql+redis", "postgresql+filesystem")
TABLE = SignupRequest._meta.db_table


def is_waiting() -> bool:
    """Tell whether web waits for the lock of another session."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE relation = %s::regclass AND NOT granted", [TABLE])
        return cursor.fetchone()[0] == 1


def test_gunicorn_finishes_its_request_at_sigterm(kit):
    """Whoever has sent the form gets the answer, and the exit code is 0."""
    port = free_port()
    web = kit.start("web", port=port)

    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(f"LOCK TABLE {TABLE} IN SHARE MODE")
            answer = pool.submit(sign_up, port, 1)
            wait_until(is_waiting)
            web.terminate()
            with pytest.raises(subprocess.TimeoutExpired):
                web.wait(2)

        assert answer.result(timeout=20).status == 202
    assert web.wait(20) == 0
    assert SignupRequest.objects.count() == 1
