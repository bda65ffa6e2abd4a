"""The run: a stream of jobs, faults at random, quiet, and then the questions."""

import fcntl
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

from django.conf import settings
from django.db import Error as DatabaseError
from django.db import connection
from django.utils import timezone
from django_celery_beat.models import IntervalSchedule, PeriodicTask

from tasks.models import Job
from tasks.states import LIVE
from tests.chaos import report
from tests.chaos.checks import Complaint, Found, complaints
from tests.chaos.faults import Fault, NothingThere, possible
from tests.chaos.marks import read_marks
from tests.chaos.stream import Stream
from tests.chaos.system import System
from tests.testjobs.models import Effect

BURSTS_PER_SECOND = 1.7  # of two jobs on average
FAULT_GAP_S = (0.5, 4.5)
STEP_S = 0.02
PROGRESS_S = 10.0
READY_S, BEAT_S, QUIET_S = 60.0, 30.0, 150.0
SCHEDULE = "chaos tick"


class Faults:
    """The faults of a run, one after another and some at once; which and when comes from the seed."""

    def __init__(self, seed: int, system: System):
        self._system, self._random = system, Random(f"faults {seed}")
        self._choice = possible(system)
        self._next_at = 0.0
        self._active: list[tuple[float, Fault, Iterator[float]]] = []
        self.counts: Counter[str] = Counter()
        self.missed = 0

    def step(self, elapsed_s: float) -> None:
        """Go on with the faults at work, and begin the next one if its time has come."""
        self.go_on()
        if elapsed_s < self._next_at or not any(worker.is_ready for worker in self._system.workers):
            return  # while no worker has started, faults would only hit starts
        self._next_at = elapsed_s + self._random.uniform(*FAULT_GAP_S)
        [fault] = self._random.choices(self._choice, [fault.weight for fault in self._choice])
        own_random = Random(self._random.random())
        if fault.server and any(fault.server == active.server for _, active, _ in self._active):
            self.missed += 1
            return
        self._begin(fault, own_random)

    def go_on(self) -> bool:
        """Call those whose time has come, and tell whether any is still at work."""
        waiting, self._active = self._active, []
        for until, fault, harm in waiting:
            self._call(fault, harm) if time.monotonic() >= until else self._active.append((until, fault, harm))
        return bool(self._active)

    def _begin(self, fault: Fault, random: Random) -> None:
        try:
            self._call(fault, fault.harm(self._system, random))
        except NothingThere:
            self.missed += 1
        else:
            self.counts[fault.name] += 1
            say(f"{fault.name}")

    def _call(self, fault: Fault, harm: Iterator[float]) -> None:
        if (wait_s := next(harm, None)) is not None:
            self._active.append((time.monotonic() + wait_s, fault, harm))


def say(text: str) -> None:
    """Print a line with the time of day, as the logs have it."""
    print(time.strftime("%H:%M:%S"), text, flush=True)


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
        faults = Faults(self._seed, self._system)
        try:
            self._wait(lambda: all(process.is_ready for process in self._system.processes), READY_S, "workers start")
            self._harm(faults)
            self._quiet()
        finally:
            self._stop()
        found = self._found()
        broken = complaints(found)
        print(report.summary(found, self._system, faults.counts, faults.missed), flush=True)
        if broken:
            print(report.failure(found, broken, self._logs, self._started), flush=True)
        verdict = f"FAILED with seed {self._seed}" if broken else f"all promises kept, seed {self._seed}"
        print(f"\n{verdict}, {self._duration_s:g} s of faults", flush=True)
        return bool(broken)

    def _harm(self, faults: Faults) -> None:
        """Let things go wrong for the given time, and then end what is still going wrong."""
        self._started = time.monotonic()
        while (elapsed_s := time.monotonic() - self._started) < self._duration_s:
            self._system.tend()
            self._stream.step(elapsed_s)
            faults.step(elapsed_s)
            self._tell()
            time.sleep(STEP_S)
        while faults.go_on():
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
        self._wait(lambda: not self._messages(), QUIET_S, "the broker's queues are empty")
        say(f"quiet after {time.monotonic() - ended:.1f} s")

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

    def _messages(self) -> int:
        """Return how many messages lie in the broker's queues; those a killed worker had are not among them."""
        if self._system.redis is None:
            return len(list((settings.BROKER_DIR / "messages").glob("*.q.*.msg")))
        with self._system.redis.client() as client:
            return sum(client.llen(key) for key in client.scan_iter("q.*", count=1_000))

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


def locks_left() -> list[str]:
    """Return the locks that are still held: on PostgreSQL advisory ones, on SQLite files."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pid, objid FROM pg_locks WHERE locktype = 'advisory'")
            return [f"advisory, session {pid}, key {key}" for pid, key in cursor.fetchall()]
    folder = Path(f"{connection.settings_dict['NAME']}.locks")
    return [file.name for file in folder.glob("*.lock") if is_locked(file)]


def is_locked(path: Path) -> bool:
    """Tell whether some process has locked the file."""
    with path.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
