"""manage.py jobs: look after jobs from a shell."""

import json
import sys
from datetime import timedelta

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, close_old_connections
from django.utils.dateparse import parse_datetime

from tasks import registry, words
from tasks.clock import database_now
from tasks.decisions import VERBS, decide_all, told
from tasks.enqueue import enqueue
from tasks.errors import EnqueueError
from tasks.models import Job, Pause
from tasks.pauses import pause, resume
from tasks.scrub import scrub
from tasks.states import State
from tasks.stats import QueueStats, queue_stats

PREFIX = "jobs:"
BY = "the command line"


class Command(BaseCommand):
    """The door for people and scripts; each subcommand is a method of its own name."""

    help = "Look after jobs."

    def add_arguments(self, parser):
        """Declare the subcommands."""
        commands = parser.add_subparsers(dest="subcommand", required=True)
        listing = commands.add_parser("list", help="show the newest jobs")
        listing.add_argument("--state", choices=State.values)
        listing.add_argument("--kind")
        listing.add_argument("--queue", choices=settings.JOBS_QUEUES)
        listing.add_argument("--limit", type=int, default=20, help="how many at most (default: 20)")
        commands.add_parser("show", help="show one job").add_argument("job_id", type=int)
        enqueuing = commands.add_parser("enqueue", help="write a job, e.g. from cron")
        enqueuing.add_argument("kind")
        enqueuing.add_argument("arguments", nargs="?", default="{}", help="by name, as JSON, e.g. '{\"user_id\": 1}'")
        enqueuing.add_argument("--unique-key")
        enqueuing.add_argument("--run-at", help="not before, e.g. 2026-12-01T09:00:00+01:00")
        for verb in VERBS.values():
            decision = commands.add_parser(verb.name, help=verb.effect[0].lower() + verb.effect[1:].rstrip("."))
            decision.add_argument("job_ids", nargs="+", type=int)
        for name in ("pause", "resume"):
            target = commands.add_parser(name, help=f"{name} a queue or a kind")
            target.add_argument("what", choices=Pause.What.values)
            target.add_argument("name")
        commands.add_parser("stats", help="show for each queue the age of the oldest job that could run, and counts")
        commands.add_parser("console", help="enqueue what lines such as jobs:KIND on standard input name")

    def handle(self, *args, subcommand, **options):
        """Run the subcommand."""
        if subcommand in VERBS:
            return self.decide(subcommand, options["job_ids"])
        return getattr(self, subcommand)(**options)

    def list(self, state, kind, queue, limit, **options):
        """Print a line for each job, newest first."""
        given = {"state": state, "kind": kind, "queue": queue}
        jobs = Job.objects.filter(**{name: value for name, value in given.items() if value}).order_by("-id")
        now = database_now()
        for job in jobs[: max(1, limit)]:
            self.stdout.write(f"{job.id:>8}  {job.state:<9}  {job.kind}  {words.standing(job, now)}")

    def show(self, job_id, **options):
        """Print what is known of a job, but not its arguments: they may be personal."""
        if (job := Job.objects.filter(id=job_id).first()) is None:
            raise CommandError(f"There is no job {job_id}.")
        self.stdout.write(f"job {job.id}, {job.kind}, {words.standing(job, database_now())}")
        self.stdout.write(f"queue {job.queue}, priority {job.priority}, run {job.run}")
        self.stdout.write(f"attempts {job.attempts} of {job.max_attempts}")
        for entry in job.history:
            self.stdout.write(f"{entry['at']} {entry['what']}: {entry.get('error') or entry['by']}")

    def enqueue(self, kind, arguments, unique_key, run_at, **options):
        """Write a job and say which, or say why not."""
        try:
            given = json.loads(arguments)
            at = parse_datetime(run_at) if run_at else None
        except ValueError as error:
            raise CommandError(f"Not understood: {error}.") from None
        if not isinstance(given, dict) or registry.RESERVED & given.keys():
            raise CommandError("Give the handler's parameters as a JSON object, e.g. '{\"user_id\": 1}'.")
        if run_at and at is None:
            raise CommandError(f"--run-at is {run_at!r}; give it a time such as 2026-12-01T09:00:00+01:00.")
        try:
            job = enqueue(kind, **given, unique_key=unique_key, run_at=at)
        except EnqueueError as error:
            raise CommandError(f"Not enqueued: {scrub(str(error))}") from None
        self.stdout.write(f"{'enqueued' if job.is_new else 'there is already'} {job.kind} as job {job.id}")

    def decide(self, verb, job_ids):
        """Carry out a decision about jobs and tell what came of it."""
        outcome = decide_all(VERBS[verb], Job.objects.filter(id__in=job_ids), by=BY, record=lambda jobs: None)
        done, left = told(VERBS[verb], outcome)
        self.stdout.write(f"{done} {left}".strip() or "There is no such job.")

    def pause(self, what, name, **options):
        """Pause a queue or a kind."""
        known = settings.JOBS_QUEUES if what == Pause.What.QUEUE else [kind.name for kind in registry.kinds()]
        if name not in known:
            raise CommandError(f"There is no {what} {name!r}. Known: {', '.join(known)}.")
        made = pause(what, name, BY)
        self.stdout.write(f"{what} {name} is paused since {words.moment(made.paused_at, database_now())}; jobs wait.")

    def resume(self, what, name, **options):
        """Let a paused queue or kind go on."""
        was_paused = resume(what, name, BY)
        self.stdout.write(f"{what} {name} {'goes on' if was_paused else 'was not paused'}.")

    def stats(self, **options):
        """Print a line for each queue, and what is paused."""
        self.stdout.write("".join(f"{name:>9}" for name in ("oldest", *QueueStats._fields[2:])) + "  queue")
        for queue in queue_stats(database_now()):
            oldest = "-" if queue.oldest_s is None else words.span(timedelta(seconds=queue.oldest_s))
            self.stdout.write("".join(f"{number:>9}" for number in (oldest, *queue[2:])) + f"  {queue.queue}")
        for row in Pause.objects.order_by("what", "name"):
            self.stdout.write(f"paused: {row}, since {words.moment(row.paused_at, database_now())}, by {row.by}")

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
