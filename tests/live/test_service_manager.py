"""Relay, worker and beat say that they are ready once they hold their locks, whether or not the broker is there."""

import socket

import pytest

from tasks import locks
from tests.kit import wait_until
from tests.services import free_port


class Systemd:
    """Listens as systemd does, and keeps what each process has said last."""

    def __init__(self, path):
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self._socket.setblocking(False)
        self.is_ready, self.status, self.fed = False, "", 0

    def listen(self) -> "Systemd":
        """Take in what has come."""
        while True:
            try:
                lines = self._socket.recv(4_096).decode().split("\n")
            except BlockingIOError:
                return self
            self.fed += "WATCHDOG=1" in lines
            self.is_ready = self.is_ready or "READY=1" in lines
            self.status = next((line[7:] for line in lines if line.startswith("STATUS=")), self.status)


@pytest.fixture
def systemd(kit, tmp_path):
    """Give what the next process started by the kit speaks to."""
    kit.extra_env["NOTIFY_SOCKET"] = str(tmp_path / "notify")
    return Systemd(tmp_path / "notify")


@pytest.mark.parametrize(
    ("name", "statuses"),
    [
        ("relay", {"relays; the broker answers", "relays; nothing has been asked of the broker yet"}),
        ("worker", {"takes default, mail, ops, pdf, webhook"}),
        ("beat", {"fires"}),
    ],
)
def test_process_says_that_it_is_ready_and_what_it_does(kit, systemd, name, statuses):
    kit.start(name, wait=False)

    wait_until(lambda: systemd.listen().is_ready and systemd.status in statuses, 40, f"it said {systemd.status!r}")


@pytest.mark.rung("postgresql+redis")
def test_worker_is_ready_while_the_broker_is_away_and_takes_work_when_it_comes(kit, systemd):
    kit.redis.stop()
    try:
        kit.start("worker", wait=False)

        wait_until(lambda: systemd.listen().is_ready, 40, "the worker is ready")
        assert systemd.status == "waits for the broker"
        fed = systemd.fed
        wait_until(lambda: systemd.listen().fed > fed + 1, 20, "it feeds the watchdog while it waits")
    finally:
        kit.redis.start()
    wait_until(lambda: systemd.listen().status.startswith("takes "), 40, "it takes work")


@pytest.mark.rung("postgresql+redis")
def test_relay_is_ready_while_the_broker_is_away(kit, systemd):
    kit.redis.stop()
    try:
        kit.start("relay")

        wait_until(lambda: systemd.listen().is_ready, 40, "the relay is ready")
    finally:
        kit.redis.start()


@pytest.mark.rung("postgresql+redis", "postgresql+filesystem")
@pytest.mark.parametrize("name", ["relay", "worker", "beat"])
def test_process_is_not_ready_before_the_database_answers(kit, systemd, name):
    nowhere = {"DATABASE_URL": f"postgresql://kit:kit@127.0.0.1:{free_port()}/kit"}

    kit.start(name, wait=False, env=nowhere)

    wait_until(lambda: systemd.listen().status == "waits for the database" and systemd.fed > 1, 60, systemd.status)
    assert not systemd.is_ready


def test_second_beat_is_ready_and_stands_by(kit, systemd):
    kit.start("beat", env={"NOTIFY_SOCKET": ""})
    wait_until(lambda: locks.is_held("beat"), 20)

    kit.start("beat")

    wait_until(lambda: systemd.listen().is_ready, 40)
    assert systemd.status == "stands by: another beat fires"


def test_stopping_worker_says_so(kit, systemd):
    worker = kit.start("worker")
    wait_until(lambda: systemd.listen().is_ready, 20)

    worker.terminate()

    wait_until(
        lambda: systemd.listen().status == "finishes what runs, and takes nothing new" or not worker.is_running, 20
    )
    assert worker.wait(20) == 0
