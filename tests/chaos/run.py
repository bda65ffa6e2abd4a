"""The run: a stream of jobs, faults at random, quiet, and then the questions."""

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from django.conf import settings
from django.db import Error as DatabaseError
from django.db import connection
from django.utils import timezone
from django_celery_beat.models import IntervalSchedule, PeriodicTask

from tasks.models import Job
from tasks.states import LIVE
from tests.chaos import report
from tests.chaos.checks import Complaint, Found, complaints
from tests.chaos.left_over import locks_left, messages_left
from tests.chaos.marks import read_marks
from tests.chaos.storm import Storm, say
from tests.chaos.stream import Stream
from tests.chaos.system import System
from tests.testjobs.models import Effect

BURSTS_PER_SECOND = 1.7  # of two jobs on average
STEP_S = 0.02
PROGRESS_S = 10.0
READY_S, BEAT_S, QUIET_S = 60.0, 30.0, 150.0
SCHEDULE = "chaos tick"


class Run:
    """One run from start to verdict."""

    def __init__(self, logs: Path, *, seed: int, duration_s: float):
        self._logs, self._seed, self._duration_s = logs, seed, duration_s
        self._stream = Stream(seed, BURSTS_PER_SECOND)
        self._complaints: list[Complaint] = []
        self._started = self._told = time.monotonic()

    def go(self) -> int:
        """Run, print what came out, and return the exit code."""
        write_schedule()
        self._system = System(self._logs, relays=2, workers=3, beats=2)
        storm = Storm(self._seed, self._system)
        try:
            self._wait(self._has_started, READY_S, "everything starts")
            self._harm(storm)
            self._quiet()
        finally:
            self._stop()
        found = self._found()
        broken = complaints(found)
        print(report.summary(found, self._system, storm.counts, storm.missed), flush=True)
        if broken:
            print(report.failure(found, broken, self._logs, self._started), flush=True)
        verdict = f"FAILED with seed {self._seed}" if broken else f"all promises kept, seed {self._seed}"
        print(f"\n{verdict}, {self._duration_s:g} s of faults", flush=True)
        return bool(broken)

    def _harm(self, storm: Storm) -> None:
        """Let things go wrong for the given time, and then end what is still going wrong."""
        self._started = time.monotonic()
        while (elapsed_s := time.monotonic() - self._started) < self._duration_s:
            self._system.tend()
            self._stream.step(elapsed_s)
            storm.step(elapsed_s)
            self._tell()
            time.sleep(STEP_S)
        while storm.go_on():
            self._system.tend()
            time.sleep(STEP_S)
        say("no more faults; waiting for quiet")

    def _quiet(self) -> None:
        """Wait until beat fires again, stop it, and wait until nothing is left to do."""
        ended, ended_at = time.monotonic(), timezone.now()
        self._wait(lambda: self._stream.flush() or self._stream.is_written, READY_S, "every job can be written")
        ticks = Job.objects.filter(kind="chaos.tick", enqueued_at__gt=ended_at)
        self._wait(ticks.exists, BEAT_S, "beat fires")
        self._wait(stop_schedule, READY_S, "the schedule can be stopped")
        self._wait(lambda: not Job.objects.filter(state__in=LIVE).exists(), QUIET_S, "every job ends")
        self._wait(lambda: not messages_left(self._system.redis), QUIET_S, "the broker's queues are empty")
        say(f"quiet after {time.monotonic() - ended:.1f} s")
        self._wait(self._has_started, READY_S, "everything has started again")  # one that starts cannot stop in order

    def _has_started(self) -> bool:
        return all(process.is_ready for process in self._system.processes)

    def _wait(self, condition: Callable, timeout_s: float, what: str) -> None:
        """Wait for a condition and complain when it does not come true; the processes are looked after meanwhile."""
        deadline = time.monotonic() + timeout_s
        while not self._is_true(condition):
            if time.monotonic() > deadline:
                self._complaints.append(Complaint(f"not within {timeout_s:g} s: {what}."))
                return
            self._system.tend()
            self._tell()
            time.sleep(STEP_S)

    def _is_true(self, condition: Callable) -> bool:
        try:
            return bool(condition())
        except DatabaseError:
            connection.close()
            return False

    def _tell(self) -> None:
        if time.monotonic() - self._told > PROGRESS_S:
            self._told = time.monotonic()
            self._is_true(self._tell_states)

    def _tell_states(self) -> None:
        states = Counter(Job.objects.values_list("state", flat=True))
        told = ", ".join(f"{number} {state}" for state, number in sorted(states.items()))
        say(f"{time.monotonic() - self._started:5.0f} s: {told}")

    def _stop(self) -> None:
        """Stop everything and complain of what does not end well, or has ended before by itself."""
        connection.close()  # a fault may have ended its session
        for name, code in self._system.stop().items():
            if code not in (0, None):
                self._complaints.append(Complaint(f"{name} was stopped and ended with {code}."))
        for process in [*self._system.relays, *self._system.beats]:
            if process.own_ends:
                self._complaints.append(Complaint(f"{process.name} ended by itself: {process.own_ends}."))
        for lock in locks_left():
            self._complaints.append(Complaint(f"nothing runs and a lock is held: {lock}."))

    def _found(self) -> Found:
        return Found(
            jobs=list(Job.objects.order_by("id")),
            marks=read_marks(settings.CHAOS_MARKS),
            effects=Counter(Effect.objects.values_list("value", flat=True)),
            enqueued=self._stream.enqueued,
            rolled_back=self._stream.rolled_back,
            freezes=self._system.freezes,
            complaints=self._complaints,
        )


def write_schedule() -> None:
    """Let beat fire a job every two seconds, and nothing else."""
    PeriodicTask.objects.all().delete()
    interval = IntervalSchedule.objects.create(every=2, period="seconds")
    PeriodicTask.objects.create(name=SCHEDULE, task="chaos.tick", interval=interval)


def stop_schedule() -> bool:
    """Let beat fire nothing more."""
    return bool(PeriodicTask.objects.filter(name=SCHEDULE).update(enabled=False))
