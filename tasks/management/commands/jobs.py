"""manage.py jobs: look after jobs from a shell."""

import sys

from django.core.management.base import BaseCommand
from django.db import DatabaseError, close_old_connections

from tasks.enqueue import enqueue
from tasks.errors import EnqueueError
from tasks.scrub import scrub

PREFIX = "jobs:"


class Command(BaseCommand):
    """The door for people and scripts; each subcommand is a method of its own name."""

    help = "Look after jobs."

    def add_arguments(self, parser):
        """Declare the subcommands."""
        commands = parser.add_subparsers(dest="subcommand", required=True)
        commands.add_parser("console", help="enqueue what lines such as jobs:KIND on standard input name")

    def handle(self, *args, subcommand, **options):
        """Run the subcommand."""
        getattr(self, subcommand)(**options)

    def console(self, **options):
        """Answer each line of standard input with one line, until it ends."""
        sys.stdin.reconfigure(errors="replace")  # a stray byte must not end it
        for line in sys.stdin:
            if line.strip():
                self.stdout.write(answer(line.strip()))
                self.stdout.flush()


def answer(line: str) -> str:
    """Enqueue what a line names and say so, or say why not.

    Transition: -> waiting.
    Shape: `jobs:KIND`, without arguments.
    Raises: nothing for a bad line or a database that is away; the next line may do better.
    """
    if not line.startswith(PREFIX):
        return f"Not understood: {scrub(line, limit=100)!r}. Type {PREFIX}KIND, e.g. {PREFIX}jobs.prune."
    kind = line.removeprefix(PREFIX).strip()
    try:
        close_old_connections()
        job = enqueue(kind)
    except EnqueueError as error:
        return f"Not enqueued: {scrub(str(error))}"
    except DatabaseError as error:
        close_old_connections()
        reason = scrub(str(error)).strip().partition("\n")[0]
        return f"Not enqueued: {kind}: the database did not take it ({reason}). Type it again later."
    return f"enqueued {job.kind} as job {job.id}"
