"""manage.py deploy: what `kit` asks of a release. Each subcommand answers with one line of JSON."""

import json
from datetime import datetime

from django.core.management import call_command
from django.core.management.base import BaseCommand
from django.db import connection

from project.ops import migration_safety
from project.ops.smoke import smoke
from tasks import words
from tasks.clock import database_now
from tasks.models import BeatHeartbeat, WorkerHeartbeat
from tasks.stats import queue_stats

SHOWN = 5


class Command(BaseCommand):
    """Few process starts make a deploy fast, so each subcommand does all that is to be done at its point."""

    help = "Used by the host's `kit` command: check and prepare a release, test it, tell how it does."
    requires_system_checks = []  # prepare runs them all, with --deploy

    def add_arguments(self, parser):
        """Declare the subcommands."""
        commands = parser.add_subparsers(dest="subcommand", required=True)
        commands.add_parser("prepare", help="check the settings, collect static files, tell the pending migrations")
        testing = commands.add_parser("smoke", help="send a job through the whole chain")
        testing.add_argument("--limit-s", type=float, default=60)
        commands.add_parser("status", help="tell queues and signs of life")

    def handle(self, *args, subcommand, **options):
        """Run the subcommand."""
        self.stdout.write(json.dumps(getattr(self, subcommand)(**options)))

    def prepare(self, **options) -> dict:
        """Check, collect, look at the migrations. Raises: SystemCheckError."""
        call_command("check", deploy=True, fail_level="WARNING", databases=["default"], stdout=self.stderr)
        call_command("collectstatic", interactive=False, verbosity=0)
        plan = migration_safety.pending(connection)
        return {
            "migrations": [str(migration) for migration in plan],
            "faults": migration_safety.faults(plan, connection),
        }

    def smoke(self, limit_s, **options) -> dict:
        """Run the smoke test."""
        return smoke(limit_s)

    def status(self, **options) -> dict:
        """Tell how the queues stand and who has given a sign of life when."""
        now = database_now()
        beats, workers = (model.objects.order_by("-seen_at")[:SHOWN] for model in (BeatHeartbeat, WorkerHeartbeat))
        return {
            "queues": [queue._asdict() for queue in queue_stats(now)],
            "beats": [f"{seen(row, now)}, {'fires' if row.is_firing else 'stands by'}" for row in beats],
            "workers": [seen(row, now) for row in workers],
        }


def seen(row: BeatHeartbeat | WorkerHeartbeat, now: datetime) -> str:
    """Return who it is and how long ago it gave its sign of life."""
    return f"{row.who}, seen {words.span(now - row.seen_at)} ago"
