"""Several beats, one of which fires: kills, lost locks, a database that is away, edits while they run."""

import os
import signal
import socket
import subprocess
from contextlib import contextmanager, suppress
from datetime import timedelta
from time import monotonic

import psycopg
import pytest
from django.db import connection
from django_celery_beat.models import ClockedSchedule, IntervalSchedule, PeriodicTask

from tasks import locks
from tasks.beat import LOCK, STEP_S, WEDGED_AFTER_S
from tasks.clock import database_now
from tasks.management.commands import serve
from tasks.models import BeatHeartbeat, Job, ScheduleState
from tests.kit import wait_until
from tests.services import need

# Beat speaks to the database alone: once for each is enough.
pytestmark = pytest.mark.rung("sqlite+filesystem", "postgresql+filesystem")

FIRES, STANDS_BY, AWAY = "fires from now on", "stands by", "the database is away"


@pytest.fixture(autouse=True)
def no_other_beat(kit):
    """Start without schedules and without a beat."""
    PeriodicTask.objects.all().delete()
    wait_until(lambda: not locks.is_held(LOCK), 15, "the beat of an earlier test is gone")


def every_second(**fields) -> PeriodicTask:
    """Write a schedule that fires each second."""
    second, _ = IntervalSchedule.objects.get_or_create(every=1, period="seconds")
    return PeriodicTask.objects.create(name="Each second", task="test.noop", interval=second, **fields)


def fired() -> list[str]:
    """Return the unique keys of all firings."""
    return list(Job.objects.order_by("id").values_list("unique_key", flat=True))


def wait_for_more(number: int = 2, timeout: float = 10) -> None:
    """Wait until there are more firings than now."""
    before = len(fired())
    wait_until(lambda: len(fired()) >= before + number, timeout, f"{number} more firings after {before}")


def assert_each_slot_once(row: PeriodicTask) -> None:
    """Compare the jobs with the count on the schedule's row, in one look."""
    row = PeriodicTask.objects.get(id=row.id)
    keys = fired()
    assert len(set(keys)) == len(keys)
    assert len(keys) - row.total_run_count in (0, 1)  # one may have fired between the two queries


def firing_and_standing_by(beats: list) -> tuple:
    """Return the beat that fires, and the others once each has said that it stands by."""
    firing = wait_until(lambda: next((beat for beat in beats if FIRES in beat.output), None), 15, FIRES)
    others = [beat for beat in beats if beat is not firing]
    for beat in others:
        beat.wait_for_line(STANDS_BY)
    return firing, others


# -- one fires ----------------------------------------------------------------------------------


def test_of_three_beats_one_fires_and_the_others_say_once_that_they_stand_by(kit):
    """And each gives its sign of life."""
    row = every_second()
    beats = [kit.start("beat") for _ in range(3)]

    firing, others = firing_and_standing_by(beats)
    wait_for_more(3)

    assert_each_slot_once(row)
    assert [beat.output.count(STANDS_BY) for beat in others] == [1, 1]
    assert [FIRES in beat.output for beat in others] == [False, False]
    assert sorted(BeatHeartbeat.objects.values_list("is_firing", flat=True)) == [False, False, True]
    assert BeatHeartbeat.objects.get(is_firing=True).who.endswith(f":{firing.pid}")


def test_killed_beat_is_replaced_within_10_s_and_the_slot_in_between_fires_once(kit):
    """kill -9; a moment that comes before anybody has taken over is fired by the one who does."""
    firing, [other] = firing_and_standing_by([kit.start("beat"), kit.start("beat")])
    moment = ClockedSchedule.objects.create(clocked_time=database_now() + timedelta(seconds=60))
    row = PeriodicTask.objects.create(name="Once", task="test.noop", clocked=moment, one_off=True)
    wait_until(lambda: ScheduleState.objects.exists(), 10, "beat has seen the schedule")

    firing.kill()
    ClockedSchedule.objects.update(clocked_time=database_now() + timedelta(milliseconds=100))
    PeriodicTask.objects.update(date_changed=database_now())  # as a person's save does

    killed_at = monotonic()
    other.wait_for_line(FIRES, timeout=10)
    wait_until(fired, 10)
    print(f"\ntaken over and fired {monotonic() - killed_at:.1f} s after kill -9")
    assert len(fired()) == 1
    assert PeriodicTask.objects.get(id=row.id).enabled is False


def test_beat_that_is_killed_again_and_again_fires_no_slot_twice_and_counts_right(kit):
    """Whenever it is killed: the job, the anchor and the count are written together or not at all."""
    row = every_second()

    for _ in range(5):
        beat = kit.start("beat")
        beat.wait_for_line(FIRES)
        wait_for_more(1)
        beat.kill()

    assert len(set(fired())) == len(fired()) == PeriodicTask.objects.get(id=row.id).total_run_count >= 5


@pytest.mark.rung("postgresql+filesystem")
def test_beat_killed_inside_its_transaction_leaves_nothing_and_the_next_one_fires_the_slot(kit):
    """Killed after the job was inserted, before the commit."""
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN PERFORM pg_sleep(2); RETURN NEW; END $$; "
            "CREATE TRIGGER slow BEFORE UPDATE OF total_run_count ON django_celery_beat_periodictask "
            "FOR EACH ROW EXECUTE FUNCTION slow()"
        )
    try:
        row = every_second(one_off=True)
        beat = kit.start("beat")
        asleep = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
        wait_until(lambda: scalar(asleep), 20, "beat is inside its transaction")
        beat.kill()
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP FUNCTION slow CASCADE")
    assert (fired(), PeriodicTask.objects.get(id=row.id).total_run_count) == ([], 0)

    kit.start("beat")

    wait_until(fired, 10)
    wait_until(lambda: not PeriodicTask.objects.get(id=row.id).enabled, 5)
    assert (len(fired()), PeriodicTask.objects.get(id=row.id).total_run_count) == (1, 1)


def scalar(sql: str):
    """Return one value."""
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchone()[0]


@pytest.mark.rung("postgresql+filesystem")
def test_beats_of_two_hosts_fire_each_slot_once(kit):
    """The lock is the database's, so a host's name decides nothing; killed on one host, it goes on on the other."""
    row = every_second()
    firing, [other] = firing_and_standing_by([beat_of_host(kit, name) for name in ("host-a", "host-b")])
    wait_for_more(1)
    hosts = {who.partition(":")[0] for who in BeatHeartbeat.objects.values_list("who", flat=True)}

    firing.kill()

    other.wait_for_line(FIRES, timeout=10)
    wait_for_more(1)
    assert hosts == {"host-a", "host-b"}
    assert_each_slot_once(row)


def beat_of_host(kit, name: str):
    """Start a beat that sees another host name, in a UTS namespace of its own."""
    named = [
        need("unshare", "util-linux"),
        "--uts",
        "--map-root-user",
        "sh",
        "-c",
        f'hostname {name} && exec "$@"',
        "sh",
    ]
    if subprocess.run([*named, "true"], capture_output=True).returncode:
        pytest.skip("this machine lets nobody have another host name: unshare --uts is refused")
    return kit.run(name, [*named, *serve.beat().command])


# -- the lock is lost ---------------------------------------------------------------------------


def end_sessions_of_beat() -> None:
    """Do what an operator or a restart does to the session that holds the lock."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted")


@pytest.mark.rung("postgresql+filesystem")
def test_beat_that_lost_its_lock_fires_nothing_until_it_has_it_again(kit):
    """Its session is ended, and somebody else is quicker."""
    row = every_second()
    beat = kit.start("beat")
    wait_for_more(2)

    end_sessions_of_beat()
    other = wait_until(lambda: locks.try_hold(LOCK), 5, "the lock is free for a moment")
    try:
        beat.wait_for_line(STANDS_BY)
        before = len(fired())
        stood_by = wait_until(lambda: BeatHeartbeat.objects.filter(is_firing=False).first(), 5)
        wait_until(lambda: BeatHeartbeat.objects.get().seen_at > stood_by.seen_at, 15, "it has taken further steps")

        assert len(fired()) == before
    finally:
        other.release()
    wait_for_more(2)
    assert_each_slot_once(row)


@pytest.mark.rung("postgresql+filesystem")
def test_beat_fires_on_after_its_session_was_ended(kit):
    """It takes the lock anew on a new session, and says what happened."""
    row = every_second()
    beat = kit.start("beat")
    wait_for_more(1)

    for _ in range(3):
        end_sessions_of_beat()
        wait_for_more(2)

    assert beat.is_running
    assert AWAY in beat.output
    assert_each_slot_once(row)


@pytest.mark.rung("postgresql+filesystem")
def test_beats_outlive_a_restart_of_the_database_and_catch_up_once(kit):
    """Both wait; afterwards one of them fires, and the outage is one line in the log of each."""
    row = every_second()
    beats = [kit.start("beat"), kit.start("beat")]
    firing_and_standing_by(beats)
    wait_for_more(2)

    connection.close()
    kit.postgresql.stop()
    for beat in beats:
        beat.wait_for_line(AWAY)
    kit.postgresql.start()

    wait_for_more(3, timeout=15)
    assert [beat.is_running for beat in beats] == [True, True]
    assert [beat.output.count(AWAY) for beat in beats] == [1, 1]
    assert_each_slot_once(row)


@pytest.mark.rung("postgresql+filesystem")
def test_beat_started_while_the_database_is_down_waits_for_it(kit):
    """It does not exit, so no supervisor has to start it in a loop."""
    every_second()
    connection.close()
    kit.postgresql.stop()
    try:
        beat = kit.start("beat")
        beat.wait_for_line(AWAY)
        assert beat.is_running
    finally:
        kit.postgresql.start()

    wait_for_more(2, timeout=15)


@pytest.mark.rung("postgresql+filesystem")
def test_schedule_that_somebody_is_saving_holds_up_no_other(kit):
    """Its row is locked by an open transaction; it fires when that has ended."""
    held = every_second()
    ScheduleState.objects.create(schedule=held, anchor=database_now())
    PeriodicTask.objects.create(name="Other", task="test.noop", interval=held.interval)

    with psycopg.connect(address()) as editor:
        editor.execute("SELECT 1 FROM django_celery_beat_periodictask WHERE id = %s FOR UPDATE", [held.id])
        kit.start("beat")
        wait_for_more(3, timeout=15)
        names = {key.partition(" @ ")[0] for key in fired()}

    assert names == {"Other"}
    wait_until(lambda: any(key.startswith("Each second") for key in fired()), 10)


def address() -> str:
    """Return where this test's database is, for a session of our own."""
    given = connection.settings_dict
    return psycopg.conninfo.make_conninfo(
        host=given["HOST"], port=given["PORT"], user=given["USER"], dbname=given["NAME"]
    )


# -- edits while it runs ------------------------------------------------------------------------


def test_update_and_sql_take_effect_within_10_s(kit):
    """Neither sends a signal; stock needs up to five minutes."""
    row = every_second()
    beat = kit.start("beat")
    wait_for_more(1)

    PeriodicTask.objects.update(enabled=False)
    changed_at = monotonic()
    stopped = ScheduleState.objects.get().fingerprint
    wait_until(lambda: ScheduleState.objects.get().fingerprint != stopped, 10, "beat has seen the update")
    print(f"\nan update() is seen after {monotonic() - changed_at:.1f} s")
    before = fired()
    with connection.cursor() as cursor:
        cursor.execute("UPDATE django_celery_beat_periodictask SET enabled = %s", [True])

    wait_for_more(2, timeout=10)
    assert fired()[: len(before)] == before
    assert_each_slot_once(row)
    assert beat.is_running


def test_deleted_schedule_fires_no_more_and_its_beat_goes_on(kit):
    """A new one under the same name begins anew."""
    every_second()
    kit.start("beat")
    wait_for_more(1)
    PeriodicTask.objects.all().delete()
    Job.objects.all().delete()

    every_second()

    wait_for_more(2, timeout=10)


# -- it hangs -----------------------------------------------------------------------------------


@pytest.mark.rung("postgresql+filesystem")
def test_beat_that_hangs_in_a_step_ends_itself(kit):
    """Its session is frozen: nothing comes back, and no timeout of the server can fire."""
    every_second()
    beat = kit.start("beat")
    wait_for_more(1)
    session = scalar("SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted")

    os.kill(session, signal.SIGSTOP)
    try:
        assert beat.wait(timeout=WEDGED_AFTER_S + 15) == -signal.SIGALRM
    finally:
        os.kill(session, signal.SIGCONT)

    kit.start("beat")
    wait_for_more(2, timeout=15)


@pytest.mark.rung("postgresql+filesystem")
def test_frozen_beat_starves_its_watchdog_and_shows_its_age_until_it_is_killed(kit, tmp_path):
    """It holds the lock, so nobody fires; what a service manager then does is what ends it."""
    row = every_second()
    with watchdog(tmp_path / "notify") as manager:
        frozen = kit.start("beat", env={"NOTIFY_SOCKET": str(tmp_path / "notify")})
        wait_for_more(1)
        standing_by = kit.start("beat")
        standing_by.wait_for_line(STANDS_BY)

        os.kill(frozen.pid, signal.SIGSTOP)
        fired_before = heard_to_the_end(manager) and fired()
        seen = BeatHeartbeat.objects.get(is_firing=True).seen_at
        stood_by = BeatHeartbeat.objects.filter(is_firing=False, seen_at__gt=seen + timedelta(seconds=5))
        wait_until(stood_by.exists, 15, "the other one has stood by for a while")

        assert heard_to_the_end(manager) == 0
        assert BeatHeartbeat.objects.get(is_firing=True).seen_at == seen
        assert fired() == fired_before
    frozen.kill()
    standing_by.wait_for_line(FIRES, timeout=10)
    wait_for_more(2)
    assert_each_slot_once(row)


@contextmanager
def watchdog(path):
    """Listen as a service manager does."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(path))
        yield manager


def heard_to_the_end(manager: socket.socket) -> int:
    """Return how many signs of life came until there was none for twice the time between two."""
    manager.settimeout(2 * STEP_S)
    heard = 0
    with suppress(TimeoutError):
        while manager.recv(100):
            heard += 1
    return heard


# -- its surroundings ---------------------------------------------------------------------------


def test_beat_needs_no_broker(kit):
    """Its address leads nowhere; a firing is a row."""
    every_second()

    kit.start("beat", env={"CELERY_BROKER_URL": "redis://127.0.0.1:1/0"})

    wait_for_more(2)


def test_beat_stops_at_once_and_gives_its_lock_back(kit):
    """SIGTERM to the one that fires: exit code 0, and the other need not wait."""
    every_second()
    firing, [other] = firing_and_standing_by([kit.start("beat"), kit.start("beat")])
    wait_for_more(1)

    firing.terminate()

    assert firing.wait(timeout=5) == 0
    other.wait_for_line(FIRES, timeout=5)


def test_beat_feeds_the_watchdog_of_its_service_manager(kit, tmp_path):
    """As long as it takes its steps, also while it stands by."""
    with watchdog(tmp_path / "notify") as manager:
        manager.settimeout(15)

        kit.start("beat", env={"NOTIFY_SOCKET": str(tmp_path / "notify")})

        first, *others = [manager.recv(100).splitlines() for _ in range(3)]
        assert {b"READY=1", b"WATCHDOG=1"} <= set(first)
        assert others == [[b"WATCHDOG=1"]] * 2
