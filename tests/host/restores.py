"""Item 7: backup, wipe, restore; people, waiting jobs and schedules are as they were."""

from tests.host.machine import DOMAIN
from tests.host.outages import site_works
from tests.host.shell import wait_for
from tests.host.suite import Suite

RESTORE_S = 1500
TICK_S = 10
TICKS = "suite ticks"
SCHEDULE = f"""
WITH every AS (
    INSERT INTO django_celery_beat_intervalschedule (every, period) VALUES ({TICK_S}, 'seconds') RETURNING id
)
INSERT INTO django_celery_beat_periodictask (name, task, args, kwargs, headers, enabled, one_off, total_run_count,
                                             date_changed, description, interval_id)
SELECT '{TICKS}', 'trial.sleep', '[]', '{{"seconds": 0}}', '{{}}', true, false, 0, now(), '', id FROM every
"""
PEOPLE = "SELECT count(*), md5(string_agg(id || email || password || name, ',' ORDER BY id)) FROM accounts_user"
WAITING = "SELECT id, kind, arguments, run_at FROM tasks_job WHERE state = 'waiting' AND run_at > now() ORDER BY id"
FIRED = f"FROM tasks_job WHERE unique_key LIKE '{TICKS} @ %' AND id > "


def restored_machine_has_it_all(suite: Suite) -> None:
    """Back up, take a new empty disk, and restore to it by one command."""
    suite.guest.sql(SCHEDULE)
    wait_for("The schedule's first firing", lambda: suite.guest.count(f"SELECT count(*) {FIRED} 0"), timeout_s=60)
    suite.guest.enqueue("trial.sleep", count=5, delay_s=7200, seconds=1)
    before = suite.guest.sql(PEOPLE), suite.guest.sql(WAITING)
    suite.site.must_make("backup", "FETCH=1")
    newest = suite.guest.count("SELECT max(id) FROM tasks_job")
    suite.machine.stop()
    suite.machine.new_disk()
    suite.machine.start()
    outcome = suite.site.must_make("restore", f"FROM=var/backups/{DOMAIN}", timeout_s=RESTORE_S)
    suite.guest.wait_until_whole(suite.site.head(), timeout_s=300)
    after = suite.guest.sql(PEOPLE), suite.guest.sql(WAITING)
    assert after[0] == before[0], f"People before the wipe: {before[0]}, after the restore: {after[0]}."
    assert after[1] == before[1], f"Waiting jobs before the wipe: {before[1]}, after the restore: {after[1]}."
    site_works(suite)
    fired = check_ticks(suite, newest)
    people, jobs = before[0][0][0], len(before[1])
    suite.found(
        f"restored to an empty machine in {outcome.seconds:.0f} s: the same {people} people and {jobs} delayed jobs; "
        f"a schedule of every {TICK_S} s {fired}"
    )


def check_ticks(suite: Suite, newest: int) -> str:
    """See that a schedule goes on at its pace, with one firing at most for all that it missed."""
    count = f"SELECT count(*) {FIRED} {newest}"
    wait_for("Three firings after the restore", lambda: suite.guest.count(count) >= 3, timeout_s=90, every_s=2)
    spread = f"SELECT count(*), extract(epoch FROM max(enqueued_at) - min(enqueued_at)) {FIRED} {newest}"
    fired, seconds = suite.guest.sql(spread)[0]
    assert int(fired) <= float(seconds) / TICK_S + 2, (
        f"A schedule of every {TICK_S} s fired {fired} times in {seconds} s."
    )
    return f"fired {fired} times in {float(seconds):.0f} s"
