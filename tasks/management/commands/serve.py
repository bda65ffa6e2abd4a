"""manage.py serve: a whole rung as one command."""

import contextlib
import errno
import os
import socket
import sys

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, connections
from django.db.migrations.executor import MigrationExecutor

from tasks.child import Child
from tasks.serve import Supervisor

HOST = "127.0.0.1"
STOP_TIMEOUT_S = 30
GIVE_BACK_S = 5  # what ending cold takes: the guardian's look, the rows, the processes
# Celery would tell in nine lines that pickled messages are dangerous to root; settings.py takes JSON only.
QUIET_AS_ROOT = "ignore:You're running the worker with superuser privileges"


class Command(BaseCommand):
    """Start web, relay, worker, beat and perhaps Flower; restart a single one that ends; stop all warmly."""

    help = (
        "Run everything as one command: web, relay, worker, beat and, if asked, Flower. Typed lines go to jobs console."
    )

    def add_arguments(self, parser):
        """Declare the options."""
        parser.add_argument("--port", type=int, default=8000, help="web, on 127.0.0.1 (default: 8000)")
        parser.add_argument("--flower", action="store_true", help="also start Flower; needs FLOWER_BASIC_AUTH")
        parser.add_argument("--flower-port", type=int, default=5555, help="Flower, on 127.0.0.1 (default: 5555)")
        parser.add_argument("--concurrency", type=int, default=2, help="jobs at once in the worker (default: 2)")
        told = f"seconds for a warm stop (default: {STOP_TIMEOUT_S}); a job that needs longer is given back"
        parser.add_argument("--stop-timeout", type=float, default=STOP_TIMEOUT_S, help=told)

    def handle(self, *args, port, flower, flower_port, concurrency, stop_timeout, **options):
        """Check what would fail later, then supervise until a signal comes."""
        if not 1 <= stop_timeout <= 86_400:
            raise CommandError(f"--stop-timeout is {stop_timeout:g}; give it 1 to 86400 seconds.")
        check_port(port, "--port=")
        if flower:
            check_port(flower_port, "--flower-port=")
            if ":" not in os.environ.get("FLOWER_BASIC_AUTH", ""):
                raise CommandError("Flower would be open to everybody here: set FLOWER_BASIC_AUTH=name:password.")
        check_migrations()
        connections.close_all()
        children = [web(port), relay(), worker(concurrency, stop_timeout_s=stop_timeout), beat()]
        children += [flower_child(flower_port)] if flower else []
        Supervisor([*children, console()], str(settings.BASE_DIR), stop_timeout_s=stop_timeout).run()


def check_port(port: int, option: str) -> None:
    """Refuse a port that cannot be listened on.

    Shape: option is what a person types before the number.
    Raises: CommandError with a sentence that says what to do.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except (OSError, OverflowError) as error:
            taken = getattr(error, "errno", None) == errno.EADDRINUSE
            reason = "is in use: stop what listens there, or" if taken else "cannot be used:"
            raise CommandError(f"Port {port} {reason} choose another one, e.g. {option}{port % 60_000 + 1}.") from None


def check_migrations() -> None:
    """Refuse a database that lacks tables; one that is away is left to the processes, which wait for it.

    Raises: CommandError.
    """
    with contextlib.suppress(DatabaseError):
        executor = MigrationExecutor(connections["default"])
        if executor.migration_plan(executor.loader.graph.leaf_nodes()):
            raise CommandError("The database is not up to date: run `python manage.py migrate` first.")


def web(port: int) -> Child:
    """Return gunicorn: one process, some threads; it says only what went wrong."""
    application = ":".join(settings.WSGI_APPLICATION.rsplit(".", 1))
    command = [sys.executable, "-m", "gunicorn", application, f"--bind={HOST}:{port}", "--threads=8"]
    command.append("--no-control-socket")  # it would lie in the home folder, one for all kits
    return Child("web", [*command, "--log-level=warning"])


def relay() -> Child:
    """Return the process that moves due rows to the broker."""
    return Child("relay", [sys.executable, "manage.py", "relay"])


def worker(concurrency: int, *, stop_timeout_s: float = STOP_TIMEOUT_S) -> Child:
    """Return Celery's worker; it gives back what it cannot finish before serve would kill it.

    Units: stop_timeout_s is the time from SIGTERM to SIGKILL.
    """
    command = [*celery("worker"), "--prefetch-multiplier=1", "--without-mingle", "--without-gossip"]
    if not settings.CELERY_BROKER_URL.startswith("filesystem:"):
        # There a warm stop kills recycled children in the middle of their job: the thread that forked them ends.
        command.append("--max-tasks-per-child=200")
    env = {"JOBS_DRAIN_S": str(drain_s(stop_timeout_s)), "PYTHONWARNINGS": warning_filters(QUIET_AS_ROOT)}
    return Child("worker", [*command, f"--concurrency={concurrency}"], env=env)


def drain_s(stop_timeout_s: float) -> int:
    """Return how long a stopping worker waits for its jobs; a shorter bound of the site's own stays. Units: seconds."""
    return min(settings.JOBS_DRAIN_S, max(1, int(stop_timeout_s - GIVE_BACK_S)))


def warning_filters(more: str) -> str:
    """Return Python's warning filters as the environment has them, and one more before those: the last one wins."""
    return ",".join(filter(None, [more, os.environ.get("PYTHONWARNINGS")]))


def beat() -> Child:
    """Return Celery's beat."""
    return Child("beat", celery("beat"))


def flower_child(port: int) -> Child:
    """Return Flower; its login comes by FLOWER_BASIC_AUTH, since everybody can read a command line."""
    command = [*celery("flower"), f"--address={HOST}", f"--port={port}"]
    # Below ERROR: every task, and each worker not up yet. It looks on, and hands over nothing that workers have taken.
    return Child("flower", command, env={"LOG_LEVEL": "ERROR", "BROKER_ACKS": "0"})


def console() -> Child:
    """Return the process that takes typed lines."""
    return Child("jobs", [sys.executable, "manage.py", "jobs", "console"], takes_lines=True)


def celery(command: str) -> list[str]:
    """Return a celery command line; the Celery app lives in the package of the WSGI application."""
    app = settings.WSGI_APPLICATION.partition(".")[0]
    return [sys.executable, "-m", "celery", "--quiet", "-A", app, command, "--loglevel=INFO"]
