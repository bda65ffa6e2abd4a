"""The job table. The verbs that move its rows are in transitions.py."""

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from tasks.states import FINISHED, LIVE, Scope, State
from tasks.transitions import JobQuerySet


class Queue(models.Model):
    """One row per queue: locked by the relay while it counts and marks, so that two relays keep one bound."""

    name = models.CharField(max_length=50, primary_key=True)

    def __str__(self):
        return self.name


class Pause(models.Model):
    """A queue or a kind that a person has paused. Its jobs wait; the row is deleted to resume."""

    class What(models.TextChoices):
        """What can be paused; also the name of a job's column."""

        QUEUE = "queue", "queue"
        KIND = "kind", "kind"

    what = models.CharField(max_length=5, choices=What)
    name = models.CharField(max_length=100, help_text="The queue or the kind.")
    by = models.CharField(max_length=200, help_text="Who paused it.")
    paused_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(name="pause_once", fields=["what", "name"]),
            models.CheckConstraint(name="pause_what_known", condition=Q(what__in=["queue", "kind"])),
        ]
        verbose_name = "pause"
        verbose_name_plural = "paused queues and kinds"

    def __str__(self):
        return f"{self.what} {self.name}"


class Limit(models.Model):
    """A rate limit or a cap: its row is locked while a job that it bounds is claimed."""

    name = models.CharField(max_length=100, primary_key=True, help_text="The rate limit's name; for a cap the kind's.")
    free_at = models.DateTimeField(null=True, blank=True, help_text="The next turn that nobody has taken.")

    def __str__(self):
        return self.name


class Job(models.Model):
    """One durable piece of work: a task with its arguments. The row is the truth, the broker only hands it over."""

    kind = models.CharField(max_length=100, help_text="Which task runs it, feature.what.")
    queue = models.CharField(max_length=50, help_text="Which workers take it; given by the kind.")
    priority = models.SmallIntegerField(default=5, help_text="0 to 9; 9 is the most urgent.")
    state = models.CharField(max_length=10, choices=State, default=State.WAITING)
    arguments = models.JSONField(default=dict, help_text="By name, ids and small values only; at most 64 KiB.")
    version = models.PositiveSmallIntegerField(default=1, help_text="The arguments' format, as the kind declared it.")
    unique_key = models.CharField(max_length=200, null=True, blank=True, help_text="One job per key and kind.")
    unique_scope = models.CharField(max_length=4, choices=Scope, default=Scope.ROW)

    run = models.PositiveIntegerField(default=0, help_text="Raised by every claim, never reset: the fence.")
    attempts = models.PositiveSmallIntegerField(default=0, help_text="The runs that were charged.")
    max_attempts = models.PositiveSmallIntegerField(default=5, help_text="Charged runs before it is dead.")
    interruptions = models.PositiveSmallIntegerField(default=0, help_text="Runs cut off by a shutdown, not charged.")
    relays = models.PositiveSmallIntegerField(
        default=0, help_text="Times relayed since it last ran; doubles the grace."
    )

    enqueued_at = models.DateTimeField(help_text="Written in the caller's transaction.")
    run_at = models.DateTimeField(help_text="Not before this time.")
    relayed_at = models.DateTimeField(null=True, blank=True, help_text="Handed to the broker.")
    started_at = models.DateTimeField(null=True, blank=True, help_text="The last claim.")
    finished_at = models.DateTimeField(null=True, blank=True, help_text="Reached a final state.")
    cancel_requested_at = models.DateTimeField(null=True, blank=True, help_text="A person asked a running job to stop.")
    unknown_since_at = models.DateTimeField(null=True, blank=True, help_text="No worker has known how to run it since.")
    snoozed_since_at = models.DateTimeField(null=True, blank=True, help_text="It has only asked to come back since.")
    keep_until = models.DateTimeField(null=True, blank=True, help_text="Not pruned before this time.")

    worker = models.CharField(max_length=120, blank=True, default="", help_text="Who claimed it last: host:pid:start.")
    child_pid = models.PositiveIntegerField(null=True, blank=True, help_text="The worker's process that runs it.")
    progress = models.PositiveSmallIntegerField(null=True, blank=True, help_text="Percent, as the handler reports it.")
    checkpoint = models.JSONField(null=True, blank=True, help_text="What the handler saved for its next run.")
    history = models.JSONField(default=list, blank=True, help_text="The last failures and decisions, newest last.")

    objects = JobQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(name="job_state_known", condition=Q(state__in=State.values)),
            models.CheckConstraint(name="job_scope_known", condition=Q(unique_scope__in=Scope.values)),
            models.CheckConstraint(name="job_priority_0_to_9", condition=Q(priority__range=(0, 9))),
            models.CheckConstraint(
                name="job_progress_percent", condition=Q(progress__isnull=True) | Q(progress__range=(0, 100))
            ),
            models.CheckConstraint(name="job_max_attempts_positive", condition=Q(max_attempts__gte=1)),
            models.CheckConstraint(name="job_attempts_within_runs", condition=Q(attempts__lte=F("run"))),
            models.CheckConstraint(
                name="job_finished_at_iff_finished",
                condition=Q(state__in=FINISHED, finished_at__isnull=False)
                | Q(state__in=LIVE, finished_at__isnull=True),
            ),
            models.CheckConstraint(
                name="job_relayed_has_time", condition=~Q(state=State.RELAYED) | Q(relayed_at__isnull=False)
            ),
            models.CheckConstraint(
                name="job_running_has_owner",
                condition=~Q(state=State.RUNNING)
                | (Q(started_at__isnull=False, child_pid__isnull=False, run__gte=1) & ~Q(worker="")),
            ),
            models.UniqueConstraint(
                name="job_unique_row", fields=["kind", "unique_key"], condition=Q(unique_scope=Scope.ROW)
            ),
            models.UniqueConstraint(
                name="job_unique_live",
                fields=["kind", "unique_key"],
                condition=Q(unique_scope=Scope.LIVE, state__in=LIVE),
            ),
        ]
        indexes = [
            # relay_batch, claim_next: the next due jobs of a queue
            models.Index(
                F("queue"),
                F("priority").desc(),
                F("run_at"),
                F("id"),
                name="job_due",
                condition=Q(state=State.WAITING),
            ),
            # relay_batch: the next due jobs of a kind with a limit, behind whatever backlog of others
            models.Index(
                F("kind"),
                F("priority").desc(),
                F("run_at"),
                F("id"),
                name="job_due_of_kind",
                condition=Q(state=State.WAITING),
            ),
            # relay_batch: how many are with the broker; return_lost: which have been there too long
            models.Index(fields=["queue", "relayed_at"], name="job_relayed", condition=Q(state=State.RELAYED)),
            # return_lost: was a later one started; admin: what runs now
            models.Index(fields=["queue", "started_at"], name="job_running", condition=Q(state=State.RUNNING)),
            # prune_batch, and admin's lists of finished jobs
            models.Index(fields=["state", "finished_at"], name="job_finished", condition=Q(finished_at__isnull=False)),
        ]

    def __str__(self):
        return f"{self.kind} {self.id}"

    @property
    def is_finished(self) -> bool:
        """Tell whether nothing will move it but a person."""
        return self.state in FINISHED

    @property
    def is_new(self) -> bool:
        """Tell whether this object was written by the enqueue call that returned it."""
        return getattr(self, "_is_new", False)


class ScheduleState(models.Model):
    """What beat knows of one schedule beside its row: how far it has come, and what is wrong with it."""

    schedule = models.OneToOneField(
        "django_celery_beat.PeriodicTask",
        on_delete=models.CASCADE,
        primary_key=True,
        related_name="beat_state",
        help_text="The schedule, as edited in admin.",
    )
    fingerprint = models.CharField(max_length=64, help_text="Of what decides when it fires; changed by an edit.")
    anchor = models.DateTimeField(help_text="The last slot handled; the next one comes after it.")
    error = models.TextField(blank=True, default="", help_text="Why it cannot fire; empty while it can.")

    def __str__(self):
        return f"{self.schedule_id} after {self.anchor:%Y-%m-%d %H:%M:%S %Z}"


class BeatHeartbeat(models.Model):
    """A beat's sign of life, for people; the lock decides who fires."""

    who = models.CharField(max_length=120, primary_key=True, help_text="host:pid")
    is_firing = models.BooleanField(help_text="It holds the lock; otherwise it stands by.")
    seen_at = models.DateTimeField(help_text="The last step it got through.")

    def __str__(self):
        return f"{self.who} {'firing' if self.is_firing else 'standing by'}"


class WorkerHeartbeat(models.Model):
    """A worker's sign of life and what its code can run, for people and for unknown kinds; its lock says who lives."""

    who = models.CharField(max_length=120, primary_key=True, help_text="As in Job.worker: host:pid:start.")
    started_at = models.DateTimeField(help_text="Its first sign of life.")
    seen_at = models.DateTimeField(help_text="The last one; every 10 s, kept for a day.")
    queues = models.JSONField(help_text="The broker's queues that it takes jobs from.")
    kinds = models.JSONField(help_text="By name of each kind: its payload version and its parameters.")

    def __str__(self):
        return f"{self.who} seen {self.seen_at:%Y-%m-%d %H:%M:%S %Z}"
