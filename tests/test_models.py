"""The job table: which verb moves which state, what the rows refuse, and who was first."""

from datetime import timedelta

import pytest
from django.db import IntegrityError, connection, models, transaction

from tasks.clock import database_now
from tasks.errors import TransitionRefused
from tasks.history import DECISIONS_KEPT, FAILURES_KEPT, decision, with_entry
from tasks.models import Job
from tasks.states import LIVE, Scope, State
from tests.rows import consistent, failed, row, stored

pytestmark = pytest.mark.django_db

LATER = timedelta(minutes=10)
DO = {
    "relay": lambda job, now: Job.objects.relay([job.id], now),
    "unrelay": lambda job, now: Job.objects.unrelay([job.id], job.relayed_at or now),
    "claim": lambda job, now: claimed(job),
    "claim_next": lambda job, now: Job.objects.claim_next(job.kind, job.queue, worker="host:1:2", child_pid=3),
    "succeed": lambda job, now: Job.objects.succeed(job),
    "retry": lambda job, now: Job.objects.retry(job, now + LATER, failed(1)),
    "snooze": lambda job, now: Job.objects.snooze(job, now + LATER, now),
    "interrupt": lambda job, now: Job.objects.interrupt(job, now + LATER),
    "save_checkpoint": lambda job, now: Job.objects.save_checkpoint(job, {"step": 1}),
    "hand_back": lambda job, now: Job.objects.hand_back(job.id, job.run + 1),
    "unclaim": lambda job, now: Job.objects.unclaim(worker="host:1:1", child_pid=2),
    "release_unknown": lambda job, now: Job.objects.release_unknown(job, now + LATER, now),
    "bury": lambda job, now: Job.objects.bury(job, failed(1)),
    "report_progress": lambda job, now: Job.objects.report_progress(job, 50),
    "retry_by_hand": lambda job, now: Job.objects.retry_by_hand(job.id, "user 1", now),
    "discard": lambda job, now: Job.objects.discard(job.id, "user 1", now),
    "cancel": lambda job, now: Job.objects.cancel(job.id, "user 1", now),
}
LEADS_TO = {
    ("relay", State.WAITING): State.RELAYED,
    ("unrelay", State.RELAYED): State.WAITING,
    ("claim_next", State.WAITING): State.RUNNING,
    ("claim", State.RELAYED): State.RUNNING,
    ("succeed", State.RUNNING): State.SUCCEEDED,
    ("retry", State.RUNNING): State.WAITING,
    ("snooze", State.RUNNING): State.WAITING,
    ("release_unknown", State.RUNNING): State.WAITING,
    ("unclaim", State.RUNNING): State.WAITING,
    ("interrupt", State.RUNNING): State.WAITING,
    ("save_checkpoint", State.RUNNING): State.RUNNING,
    ("hand_back", State.RELAYED): State.WAITING,
    ("bury", State.RUNNING): State.DEAD,
    ("report_progress", State.RUNNING): State.RUNNING,
    ("retry_by_hand", State.DEAD): State.WAITING,
    ("discard", State.DEAD): State.DISCARDED,
    ("cancel", State.WAITING): State.CANCELLED,
    ("cancel", State.RELAYED): State.CANCELLED,
    ("cancel", State.RUNNING): State.RUNNING,
}
OF_A_RUN = ["succeed", "retry", "snooze", "release_unknown", "interrupt", "bury", "report_progress", "save_checkpoint"]


def claimed(job: Job) -> Job | None:
    """Claim a job for its next run, as a worker does."""
    return Job.objects.claim(job.id, job.run + 1, worker="host:1:2", child_pid=3)


# -- the verbs ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("verb", "state"), LEADS_TO)
def test_verb_moves_a_job_along_its_transition(verb, state):
    job = row(state)

    changed = DO[verb](job, database_now())

    assert changed
    assert stored(job.id)["state"] == LEADS_TO[verb, state]


@pytest.mark.parametrize(("verb", "state"), [(v, s) for v in DO for s in State if (v, s) not in LEADS_TO])
def test_verb_leaves_every_other_state_untouched(verb, state):
    job = row(state)
    before = stored(job.id)

    changed = DO[verb](job, database_now())

    assert not changed
    assert stored(job.id) == before


@pytest.mark.parametrize("verb", OF_A_RUN)
def test_late_run_cannot_change_the_row(verb):
    late = row(State.RUNNING)
    Job.objects.filter(id=late.id).update(run=2, worker="host:9:9")
    before = stored(late.id)

    changed = DO[verb](late, database_now())

    assert not changed
    assert stored(late.id) == before


def test_claim_is_refused_for_an_old_run_number():
    job = row(State.RELAYED, run=3)

    second = Job.objects.claim(job.id, 3, worker="host:1:2", child_pid=3)

    assert second is None


def test_unclaim_leaves_what_other_processes_run():
    of_another_worker = row(State.RUNNING, worker="host:1:2")
    of_another_child = row(State.RUNNING, child_pid=3)

    changed = Job.objects.unclaim(worker="host:1:1", child_pid=2)

    assert changed == 0
    assert {stored(job.id)["state"] for job in (of_another_worker, of_another_child)} == {State.RUNNING}


def test_claim_raises_run_and_charges_an_attempt():
    job = row(State.RELAYED, run=4, attempts=2, relays=3, progress=70)

    mine = claimed(job)

    assert (mine.run, mine.attempts, mine.relays, mine.progress) == (5, 3, 0, None)
    assert (mine.worker, mine.child_pid) == ("host:1:2", 3)


def test_unrelay_leaves_a_job_that_was_relayed_again():
    job = row(State.RELAYED)

    changed = Job.objects.unrelay([job.id], job.relayed_at - timedelta(seconds=1))

    assert changed == 0


@pytest.mark.parametrize("verb", ["snooze", "release_unknown", "unclaim"])
def test_run_that_did_no_work_costs_no_attempt(verb):
    job = row(State.RUNNING, run=3, attempts=2)

    DO[verb](job, database_now())

    assert (stored(job.id)["run"], stored(job.id)["attempts"]) == (3, 1)


def test_retry_keeps_the_charge_and_waits_until_run_at():
    job = row(State.RUNNING, run=3, attempts=2)
    now = database_now()

    Job.objects.retry(job, now + LATER, failed(2))

    after = stored(job.id)
    assert (after["run"], after["attempts"], after["run_at"]) == (3, 2, now + LATER)
    assert after["history"] == [failed(2)]


def test_due_gives_the_most_urgent_first_and_the_oldest_among_equals():
    now = database_now()
    late, early = row(State.WAITING, run_at=now), row(State.WAITING, run_at=now - LATER)
    urgent = row(State.WAITING, run_at=now, priority=9)
    row(State.WAITING, run_at=now + LATER)

    due = list(Job.objects.due(now))

    assert due == [urgent, early, late]


# -- what a person decides ----------------------------------------------------------------------


def test_dead_job_retried_by_hand_starts_afresh_and_keeps_its_run_number():
    job = row(State.DEAD, run=7, attempts=5, history=[failed(5)])
    now = database_now()

    Job.objects.retry_by_hand(job.id, "user 1", now)

    after = stored(job.id)
    assert (after["run"], after["attempts"], after["run_at"], after["finished_at"]) == (7, 0, now, None)
    assert after["history"] == [failed(5), decision("retried", "user 1", now)]


def test_retry_by_hand_is_refused_in_words_while_a_successor_lives():
    dead = row(State.DEAD, unique_key="sync:1", unique_scope=Scope.LIVE)
    row(State.WAITING, unique_key="sync:1", unique_scope=Scope.LIVE)
    before = stored(dead.id)

    with pytest.raises(TransitionRefused, match=f"Job {dead.id} was not retried: a newer job"):
        Job.objects.retry_by_hand(dead.id, "user 1", database_now())

    assert stored(dead.id) == before


def test_list_of_jobs_is_decided_about_at_once_and_each_keeps_its_history():
    first, second, other = (row(State.DEAD, history=[failed(n)]) for n in (1, 2, 3))
    done = row(State.SUCCEEDED)
    now = database_now()

    changed = Job.objects.discard([first.id, second.id, done.id], "user 1", now)

    assert changed == 2
    assert [stored(job.id)["state"] for job in (first, second, other)] == [State.DISCARDED, State.DISCARDED, State.DEAD]
    assert stored(second.id)["history"] == [failed(2), decision("discarded", "user 1", now)]
    assert stored(done.id)["history"] == []


def test_list_with_one_refused_retry_changes_none():
    free, taken = row(State.DEAD), row(State.DEAD, unique_key="sync:1", unique_scope=Scope.LIVE)
    row(State.WAITING, unique_key="sync:1", unique_scope=Scope.LIVE)
    before = stored(free.id)

    with pytest.raises(TransitionRefused, match="None of these jobs was retried"):
        Job.objects.retry_by_hand([free.id, taken.id], "user 1", database_now())

    assert stored(free.id) == before


def test_cancelling_a_list_withdraws_those_that_wait_and_asks_those_that_run():
    waiting, running = row(State.WAITING), row(State.RUNNING)
    now = database_now()

    changed = Job.objects.cancel([waiting.id, running.id], "user 1", now)

    assert changed == 2
    assert (stored(waiting.id)["state"], stored(running.id)["state"]) == (State.CANCELLED, State.RUNNING)
    assert stored(running.id)["cancel_requested_at"] == now


def test_cancelling_a_running_job_asks_it_to_stop():
    job = row(State.RUNNING)
    now = database_now()

    Job.objects.cancel(job.id, "user 1", now)

    assert stored(job.id)["cancel_requested_at"] == now
    assert stored(job.id)["history"] == [decision("cancel requested", "user 1", now)]


@pytest.mark.parametrize("verb", ["retry", "snooze", "release_unknown", "interrupt", "bury"])
def test_job_asked_to_stop_is_cancelled_instead_of_tried_again(verb):
    job = row(State.RUNNING)
    Job.objects.cancel(job.id, "user 1", database_now())

    changed = DO[verb](job, database_now())

    assert changed == 1
    assert stored(job.id)["state"] == State.CANCELLED
    assert stored(job.id)["finished_at"] is not None


def test_job_asked_to_stop_that_succeeds_has_succeeded():
    job = row(State.RUNNING)
    Job.objects.cancel(job.id, "user 1", database_now())

    DO["succeed"](job, database_now())

    assert stored(job.id)["state"] == State.SUCCEEDED


def test_decision_made_while_a_job_fails_is_not_lost_from_the_history():
    job = row(State.RUNNING)
    now = database_now()
    Job.objects.cancel(job.id, "user 1", now)

    Job.objects.retry(job, now, failed(1))

    assert stored(job.id)["history"] == [decision("cancel requested", "user 1", now), failed(1)]


# -- the history --------------------------------------------------------------------------------


def test_history_keeps_the_last_ten_failures():
    history = []

    for attempt in range(15):
        history = with_entry(history, failed(attempt))

    assert [entry["attempt"] for entry in history] == list(range(15 - FAILURES_KEPT, 15))


def test_history_keeps_the_last_ten_decisions_beside_the_failures():
    now = database_now()
    history = [failed(attempt) for attempt in range(FAILURES_KEPT)]

    for person in range(15):
        history = with_entry(history, decision("retried", f"user {person}", now))

    assert [entry["by"] for entry in history if "by" in entry] == [f"user {n}" for n in range(15 - DECISIONS_KEPT, 15)]
    assert sum("by" not in entry for entry in history) == FAILURES_KEPT


# -- what the table refuses ---------------------------------------------------------------------

NONSENSE = {
    "job_state_known": {"state": "lost", "finished_at": None},
    "job_scope_known": {"unique_scope": "day"},
    "job_priority_0_to_9": {"priority": 10},
    "job_progress_percent": {"progress": 101},
    "job_max_attempts_positive": {"max_attempts": 0},
    "job_attempts_within_runs": {"run": 1, "attempts": 2},
    "job_finished_at_iff_finished": {"state": State.SUCCEEDED, "finished_at": None},
    "job_relayed_has_time": {"state": State.RELAYED, "relayed_at": None},
    "job_running_has_owner": {"state": State.RUNNING, "worker": ""},
}


@pytest.mark.parametrize("name", [c.name for c in Job._meta.constraints if isinstance(c, models.CheckConstraint)])
def test_table_refuses_nonsense(name):
    columns = consistent(NONSENSE[name].get("state", State.WAITING)) | NONSENSE[name]

    with pytest.raises(IntegrityError) as refused, transaction.atomic():
        Job.objects.create(**columns)

    # One row may break several rules (an unknown state is neither live nor finished); which is told first differs.
    broken = {name} | ({"job_finished_at_iff_finished"} if name == "job_state_known" else set())
    assert any(rule in str(refused.value) for rule in broken)


def test_live_job_with_a_finish_time_is_refused():
    columns = consistent(State.WAITING, finished_at=database_now())

    with pytest.raises(IntegrityError, match="job_finished_at_iff_finished"), transaction.atomic():
        Job.objects.create(**columns)


@pytest.mark.parametrize("missing", [{"started_at": None}, {"child_pid": None}, {"run": 0, "attempts": 0}])
def test_running_job_without_its_owner_is_refused(missing):
    columns = consistent(State.RUNNING, **missing)

    with pytest.raises(IntegrityError, match="job_running_has_owner"), transaction.atomic():
        Job.objects.create(**columns)


# -- one job, one row ---------------------------------------------------------------------------


@pytest.mark.parametrize("state", State)
def test_key_of_scope_row_is_taken_while_the_row_exists(state):
    row(state, unique_key="welcome:42")

    with pytest.raises(IntegrityError), transaction.atomic():
        row(State.WAITING, unique_key="welcome:42")


@pytest.mark.parametrize("state", LIVE)
def test_key_of_scope_live_is_taken_until_the_job_has_finished(state):
    row(state, unique_key="sync:1", unique_scope=Scope.LIVE)

    with pytest.raises(IntegrityError), transaction.atomic():
        row(State.WAITING, unique_key="sync:1", unique_scope=Scope.LIVE)


@pytest.mark.parametrize("state", [state for state in State if state not in LIVE])
def test_key_of_scope_live_is_free_once_the_job_has_finished(state):
    row(state, unique_key="sync:1", unique_scope=Scope.LIVE)

    successor = row(State.WAITING, unique_key="sync:1", unique_scope=Scope.LIVE)

    assert successor.id


def test_key_is_taken_for_one_kind_only():
    row(State.WAITING, unique_key="welcome:42")

    other = row(State.WAITING, kind="test.other", unique_key="welcome:42")

    assert other.id


def test_jobs_without_a_key_are_many():
    first, second = row(State.WAITING), row(State.WAITING)

    assert first.id != second.id


@pytest.mark.rung("postgresql+filesystem")
def test_postgresql_cleans_the_job_table_up_often():
    """Claims get slow behind rows that nobody has cleared away."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT reloptions FROM pg_class WHERE oid = 'tasks_job'::regclass")
        options = cursor.fetchone()[0]

    assert "autovacuum_vacuum_scale_factor=0.02" in options
