"""What a process tells systemd, over a real socket of the kind that systemd listens on."""

import socket

import pytest

from tasks import notify
from tasks.notify import ServiceManager

pytestmark = pytest.mark.rung("sqlite+filesystem")  # nothing in it depends on database or broker


@pytest.fixture
def systemd(tmp_path, monkeypatch):
    """Listen as systemd does, and return a function that gives the messages since the last call."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))

        def messages() -> list[list[str]]:
            found = []
            while True:
                try:
                    found.append(listening.recv(4_096).decode().split("\n"))
                except BlockingIOError:
                    return found

        yield messages


def test_ready_is_told_once_and_the_state_when_it_changes(systemd):
    manager = ServiceManager()

    manager.tell("waits for the database", is_ready=False)
    manager.tell("fires")
    manager.tell("fires")
    manager.tell("stands by")

    assert systemd() == [
        ["WATCHDOG=1", "STATUS=waits for the database"],
        ["WATCHDOG=1", "READY=1", "STATUS=fires"],
        ["WATCHDOG=1", "STATUS=stands by"],
    ]


def test_watchdog_is_fed_again_after_a_while(systemd, monkeypatch):
    monkeypatch.setattr(notify, "FEED_EVERY_S", 0)
    manager = ServiceManager()

    manager.tell("fires")
    manager.tell("fires")

    assert systemd()[1:] == [["WATCHDOG=1"]]


def test_nothing_happens_where_no_service_manager_listens(monkeypatch, caplog):
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)

    ServiceManager().tell("fires")

    assert caplog.text == ""


def test_missing_service_manager_is_told_and_ends_nothing(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))

    ServiceManager().tell("fires")

    assert "the service manager does not take the sign of life" in caplog.text
