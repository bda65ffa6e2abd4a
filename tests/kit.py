"""Real processes of the kit, for tests: started on the rung's own servers, stopped with the test."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from django.conf import settings
from django.db import connection

from tasks.child import die_with_parent
from tasks.management.commands import serve
from tasks.registry import broker_queue
from tests import services

ROOT = Path(__file__).resolve().parent.parent
PYTHON = sys.executable
READY = {"worker": " ready.", "web": "Listening at", "beat": "beat: Starting"}


def wait_until(condition: Callable, timeout: float = 20.0, message: str = ""):
    """Return the first true value of the condition.

    Units: timeout in seconds.
    Raises: AssertionError with the message when it stays false.
    """
    deadline = time.monotonic() + timeout
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout:g} s: {message or condition}")
        time.sleep(0.03)
    return value


class Process:
    """One started process, its output in a file."""

    def __init__(self, name: str, command: list[str], env: dict[str, str], log: Path, **popen):
        self.name, self.log = name, log
        with log.open("ab") as output:
            # A group of its own: a signal for the tests must not reach it, and a kill must not miss a child.
            self.popen = subprocess.Popen(
                command,
                env=env,
                cwd=popen.pop("cwd", ROOT),
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=die_with_parent(),
                **popen,
            )
        self.pid = self.popen.pid

    @property
    def output(self) -> str:
        """Return everything it has printed."""
        return self.log.read_text(errors="replace")

    @property
    def is_running(self) -> bool:
        """Tell whether it has not ended."""
        return self.popen.poll() is None

    def wait_for_line(self, text: str, timeout: float = 30.0) -> str:
        """Return the first line of its output that holds the text.

        Raises: AssertionError when it ends first, or too much time has passed.
        """

        def found():
            ended = not self.is_running
            line = next((line for line in self.output.splitlines() if text in line), None)
            assert line or not ended, f"{self.name} ended with {self.popen.returncode} before {text!r}:\n{self.tail()}"
            return line

        return wait_until(found, timeout, f"{self.name} prints {text!r}; it printed:\n{self.tail()}")

    def tail(self, lines: int = 40) -> str:
        """Return the last lines of its output."""
        return "\n".join(self.output.splitlines()[-lines:])

    def terminate(self) -> None:
        """Send SIGTERM to the main process, as a service manager does."""
        self.popen.terminate()

    def kill(self) -> None:
        """Send SIGKILL to the main process and wait for its end."""
        self.popen.kill()
        self.popen.wait(timeout=10)

    def wait(self, timeout: float = 30.0) -> int:
        """Wait for its end and return its exit code."""
        return self.popen.wait(timeout)

    def stop(self, timeout: float = 15.0) -> int:
        """Stop it warmly, or with its whole group when that takes too long; return the exit code."""
        if self.is_running:
            self.terminate()
        try:
            return self.popen.wait(timeout)
        except subprocess.TimeoutExpired:
            os.killpg(self.pid, signal.SIGKILL)
            return self.popen.wait(timeout=10)


class Kit:
    """The processes of one test, all on the database and the broker of that test."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.rung = services.rung()
        self.processes: list[Process] = []
        self.extra_env: dict[str, str] = {}  # for every process started from now on
        self.empty_broker()

    @property
    def redis(self) -> services.Redis:
        """Return the rung's Redis, to stop, kill and start it."""
        return services.Redis(Path(os.environ["REDIS_DIR"]))

    @property
    def postgresql(self) -> services.Postgresql:
        """Return the rung's PostgreSQL, to stop, kill and start it."""
        return services.Postgresql(Path(os.environ["POSTGRESQL_DIR"]))

    def env(self, **more: str) -> dict[str, str]:
        """Return the environment of a process that uses this test's database."""
        return os.environ | {
            "DJANGO_SETTINGS_MODULE": "tests.settings",
            "DATABASE_URL": test_database_url(),
            "DATA_DIR": str(settings.DATA_DIR),
            "PYTHONUNBUFFERED": "1",
            **self.extra_env,
            **more,
        }

    def start(self, name: str, *arguments: str, wait: bool = True, env: dict | None = None, **options) -> Process:
        """Start relay, worker, beat or web, and wait until it says that it is ready (relay says nothing).

        Shape: worker takes queues=[...] (all when absent) and concurrency=2; web takes port.
        """
        command = getattr(self, f"_{name}")(**options) + list(arguments)
        process = self.run(name, command, env=env)
        if wait and name in READY:
            process.wait_for_line(READY[name])
        return process

    def run(self, name: str, command: list[str], *, env: dict | None = None, **popen) -> Process:
        """Start any command in this test's environment."""
        log = self.folder / f"{len(self.processes)}-{name}.log"
        named = {"PGAPPNAME": name}  # so that pg_stat_activity tells whose a session is
        process = Process(name, command, self.env(**named | (env or {})), log, **popen)
        self.processes.append(process)
        return process

    def end_all(self) -> None:
        """End whatever is still running, at once and with its children: tests of warm stops have stopped theirs."""
        for process in self.processes:
            if process.is_running:
                os.killpg(process.pid, signal.SIGKILL)
        for process in self.processes:
            process.popen.wait(timeout=10)

    def empty_broker(self) -> None:
        """Forget all messages of earlier tests.

        Raises: RuntimeError on a Redis that the tests did not start.
        """
        if settings.CELERY_BROKER_URL.startswith("filesystem"):
            for folder in ("messages", "control"):
                shutil.rmtree(settings.BROKER_DIR / folder, ignore_errors=True)
                (settings.BROKER_DIR / folder).mkdir(parents=True)
        elif "REDIS_DIR" not in os.environ:
            raise RuntimeError("Tests empty Redis, so they only use one of their own: python -m tests.rungs")
        else:
            self.redis.flush()

    def _relay(self) -> list[str]:
        return [PYTHON, "manage.py", "relay"]

    def _worker(self, queues: list[str] | None = None, concurrency: int = 2) -> list[str]:
        command = [*serve.worker(concurrency).command, "-n", f"w{len(self.processes)}@%h"]
        return command + ([f"--queues={','.join(map(broker_queue, queues))}"] if queues else [])

    def _beat(self) -> list[str]:
        return serve.beat().command

    def _web(self, port: int) -> list[str]:
        return [
            PYTHON,
            "-m",
            "gunicorn",
            "project.wsgi",
            f"--bind=127.0.0.1:{port}",
            "--threads=8",
            "--no-control-socket",
        ]


def test_database_url() -> str:
    """Return the address of the database that this process's tests use."""
    name = connection.settings_dict["NAME"]
    if connection.vendor == "sqlite":
        return f"sqlite:///{name}"
    return urlunsplit(urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{name}"))


test_database_url.__test__ = False  # not a test, in spite of its name
