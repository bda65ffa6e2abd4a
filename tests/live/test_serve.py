"""manage.py serve: one command for a whole rung."""

import os
import signal
import socket
import subprocess

import pytest

from tasks.models import Job
from tasks.states import State
from tests.checkout import processes_in
from tests.kit import PYTHON, wait_until
from tests.services import HOST, free_port
from tests.testjobs.models import Effect

# Not on the rung between: serve differs only by the broker.
pytestmark = pytest.mark.rung("sqlite+filesystem", "postgresql+redis")
ON_ONE_RUNG = pytest.mark.rung("sqlite+filesystem")  # nothing in it depends on the database or the broker


class Serve:
    """A running serve, and what its children are."""

    def __init__(self, kit, *arguments: str):
        self.port = free_port()
        command = [PYTHON, "manage.py", "serve", f"--port={self.port}", "--concurrency=1", *arguments]
        self.keyboard_out, self.keyboard = os.pipe()
        self.process = kit.run("serve", command, stdin=self.keyboard_out)
        os.close(self.keyboard_out)

    def type(self, text: str) -> None:
        """Type into its standard input."""
        os.write(self.keyboard, text.encode())

    def wait_until_ready(self) -> "Serve":
        """Wait until every process has said that it runs, and web listens."""
        for text in ("relay started", " ready.", "beat: Starting"):
            self.process.wait_for_line(text, timeout=60)
        wait_until(self.is_listening, 30, "web listens")
        return self

    def is_listening(self) -> bool:
        """Tell whether the site takes connections."""
        with socket.socket() as probe:
            return probe.connect_ex((HOST, self.port)) == 0

    def children(self) -> dict[str, int]:
        """Return the pids of its direct children by what they are."""
        names = ("relay", "worker", "beat", "gunicorn", "console")
        return {
            next((name for name in names if name in command), command): pid
            for pid, command in processes_in(os.getcwd())
            if parent_of(pid) == self.process.pid
        }


def parent_of(pid: int) -> int:
    """Return the pid of a process's parent, 0 when it has ended."""
    found = subprocess.run(["ps", "-o", "ppid=", "-p", str(pid)], capture_output=True, text=True)
    return int(found.stdout or 0)


@pytest.fixture
def serve(kit):
    """Give a serve with all its processes up."""
    started = Serve(kit).wait_until_ready()
    yield started
    os.close(started.keyboard)


def test_serve_runs_web_relay_worker_and_beat(serve):
    assert set(serve.children()) == {"gunicorn", "relay", "worker", "beat"}


@ON_ONE_RUNG
def test_typed_line_becomes_a_succeeded_job(serve):
    serve.type("jobs:test.echo_default\n")

    wait_until(lambda: Job.objects.filter(kind="test.echo_default", state=State.SUCCEEDED).exists(), 30, "job succeeds")
    assert Effect.objects.get().value == "default"


@ON_ONE_RUNG
def test_nonsense_typed_is_answered_and_the_next_line_works(serve):
    serve.type("reboot\njobs:no.such_kind\njobs:test.echo\n\njobs:test.echo_default\n")

    serve.process.wait_for_line("enqueued test.echo_default as job")
    assert "jobs   | Not understood: 'reboot'. Type jobs:KIND" in serve.process.output
    assert "jobs   | Not enqueued: No task is registered as 'no.such_kind'." in serve.process.output
    assert "jobs   | Not enqueued: test.echo(value) does not take these arguments" in serve.process.output


@ON_ONE_RUNG
def test_killed_relay_is_restarted_alone(serve):
    before = serve.children()

    os.kill(before["relay"], signal.SIGKILL)

    serve.process.wait_for_line("relay  | was killed by signal 9; starts again in 1 s")
    after = wait_until(lambda: len(now := serve.children()) == 4 and now, 10, "relay is back")
    assert after.pop("relay") != before.pop("relay")
    assert after == before


@ON_ONE_RUNG
def test_sigterm_stops_everything_with_exit_code_0(serve):
    pids = [serve.process.pid, *serve.children().values()]

    serve.process.terminate()

    assert serve.process.wait() == 0
    assert not [pid for pid, _ in processes_in(os.getcwd()) if pid in pids]


def test_running_job_is_finished_before_the_stop(serve):
    serve.type("jobs:test.nap\n")
    wait_until(lambda: Job.objects.filter(kind="test.nap", state=State.RUNNING).exists(), 30, "job runs")

    serve.process.terminate()

    assert serve.process.wait() == 0
    assert Job.objects.get(kind="test.nap").state == State.SUCCEEDED


@ON_ONE_RUNG
def test_killed_serve_leaves_no_orphan(serve):
    pids = set(serve.children().values())

    serve.process.kill()

    wait_until(lambda: not pids & {pid for pid, _ in processes_in(os.getcwd())}, 30, "the children stop too")


@ON_ONE_RUNG
def test_second_ctrl_c_stops_at_once(serve):
    serve.type("jobs:test.long_nap\n")
    wait_until(lambda: Job.objects.filter(kind="test.long_nap", state=State.RUNNING).exists(), 30, "job runs")

    os.kill(serve.process.pid, signal.SIGINT)
    serve.process.wait_for_line("stopping warmly")
    os.kill(serve.process.pid, signal.SIGINT)

    assert serve.process.wait(timeout=10) == 0
    assert "stopping at once" in serve.process.output
    assert Job.objects.values_list("state", "attempts", "interruptions").get() == (State.WAITING, 0, 1)


def test_job_that_does_not_fit_into_the_stop_is_given_back_without_charge(kit):
    serve = Serve(kit, "--stop-timeout=8").wait_until_ready()
    serve.type("jobs:test.long_nap\n")
    wait_until(lambda: Job.objects.filter(kind="test.long_nap", state=State.RUNNING).exists(), 30, "job runs")

    serve.process.terminate()

    assert serve.process.wait(timeout=10) == 0
    assert "is killed" not in serve.process.output
    assert Job.objects.values_list("state", "attempts", "interruptions").get() == (State.WAITING, 0, 1)


@ON_ONE_RUNG
def test_what_does_not_stop_in_time_is_killed_by_name(kit):
    serve = Serve(kit, "--stop-timeout=1").wait_until_ready()
    serve.type("jobs:test.long_nap\n")
    wait_until(lambda: Job.objects.filter(kind="test.long_nap", state=State.RUNNING).exists(), 30, "job runs")

    serve.process.terminate()

    assert serve.process.wait(timeout=10) == 0
    assert "worker | did not stop in time and is killed" in serve.process.output


@ON_ONE_RUNG
def test_start_says_nothing_that_a_newcomer_need_not_see(serve):
    assert "superuser privileges" not in serve.process.output
    assert "gunicorn" not in serve.process.output


@ON_ONE_RUNG
@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "1e9"])
def test_senseless_stop_timeout_is_refused(kit, seconds):
    refused = kit.run("serve", [PYTHON, "manage.py", "serve", f"--stop-timeout={seconds}"])

    assert refused.wait() == 1
    assert "give it 1 to 86400 seconds" in refused.output


@ON_ONE_RUNG
def test_port_in_use_is_one_sentence(kit):
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]

        refused = kit.run("serve", [PYTHON, "manage.py", "serve", f"--port={port}"])

        assert refused.wait() == 1
    sentence, *more = refused.output.splitlines()
    assert sentence.startswith(f"CommandError: Port {port} is in use: stop what listens there, or choose another one")
    assert not more


@ON_ONE_RUNG
def test_flower_without_a_login_is_refused(kit):
    refused = kit.run("serve", [PYTHON, "manage.py", "serve", "--flower", f"--port={free_port()}"])

    assert refused.wait() == 1
    assert "set FLOWER_BASIC_AUTH=name:password" in refused.output


@ON_ONE_RUNG
def test_piped_lines_are_enqueued_and_serve_goes_on_after_their_end(kit):
    serve = Serve(kit)
    serve.type("jobs:test.echo_default\njobs:test.echo_default")
    os.close(serve.keyboard)

    wait_until(lambda: Effect.objects.count() == 2, 60, "both lines were enqueued and ran")
    assert serve.process.is_running
