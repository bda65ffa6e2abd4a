"""Jobs in Django admin: what a person sees, who may decide, and what the decision does."""

from datetime import timedelta

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.contrib.messages import get_messages
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tasks import words
from tasks.clock import database_now
from tasks.decisions import BATCH, VERBS, decide_all
from tasks.models import Job, Queue
from tasks.states import Scope, State
from tests.rows import consistent, failed, row, stored

pytestmark = pytest.mark.django_db

LIST = "/admin/tasks/job/"


@pytest.fixture
def boss(client):
    """A client whose user may do everything."""
    user = get_user_model().objects.create_superuser(email="boss@example.com", password="x" * 12)
    client.force_login(user)
    client.user = user
    return client


@pytest.fixture
def staff(client):
    """A function that signs a staff user in with the named permissions on jobs."""

    def signed_in(*permissions: str):
        user = get_user_model().objects.create_user(email="staff@example.com", password="x" * 12, is_staff=True)
        user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
        client.force_login(user)
        return client

    return signed_in


def page(job: Job, what: str = "change") -> str:
    """Return the address of a job's page, or of a decision about it."""
    return f"{LIST}{job.id}/{what}/"


def act(client, verb: str, jobs: list[Job], *, query: str = "", **fields):
    """Choose an action for ticked jobs, confirmed."""
    ticked = [job.id for job in jobs]
    fields = {"action": f"{verb}_selected", "_selected_action": ticked, "is_confirmed": "1"} | fields
    return client.post(f"{LIST}{query}", fields)


def messages(response) -> list[str]:
    """Return what the next page will tell."""
    return [str(message) for message in get_messages(response.wsgi_request)]


def listed(client, query: str = "") -> set[int]:
    """Return the ids that the list shows."""
    response = client.get(f"{LIST}{query}")
    assert response.status_code == 200, response
    return {job.id for job in response.context["cl"].result_list}


def state(job: Job) -> str:
    """Return a job's state as stored."""
    return stored(job.id)["state"]


# -- who may see, who may act -------------------------------------------------------------------


@pytest.mark.parametrize("what", ["", "{id}/change/", "{id}/retry/", "{id}/cancel/", "{id}/discard/"])
def test_anonymous_visitor_gets_the_login_page(client, what):
    address = LIST + what.format(id=row(State.DEAD).id)

    response = client.post(address)

    assert response.status_code == 302
    assert response.url.startswith("/admin/login/")


@pytest.mark.parametrize("what", ["", "{id}/change/", "{id}/retry/", "{id}/cancel/", "{id}/discard/"])
def test_staff_without_permission_is_refused(staff, what):
    address = LIST + what.format(id=row(State.DEAD).id)

    response = staff().get(address)

    assert response.status_code == 403


@pytest.mark.parametrize("verb", VERBS)
def test_viewer_cannot_decide(staff, verb):
    job = row(State.DEAD)
    viewer = staff("view_job")

    response = viewer.post(page(job, verb))

    assert response.status_code == 403
    assert state(job) == State.DEAD


@pytest.mark.parametrize("verb", VERBS)
def test_viewer_is_offered_no_decision(staff, verb):
    job = row(State.DEAD)
    viewer = staff("view_job")

    job_page = viewer.get(page(job)).content.decode()

    assert page(job, verb) not in job_page
    assert f"{verb}_selected" not in viewer.get(LIST).content.decode()


def test_viewer_who_forges_an_action_changes_nothing(staff):
    job = row(State.DEAD)

    act(staff("view_job"), "retry", [job])

    assert state(job) == State.DEAD


def test_changer_may_decide(staff):
    job = row(State.DEAD)

    act(staff("view_job", "change_job"), "retry", [job])

    assert state(job) == State.WAITING


@pytest.mark.parametrize("what", ["add/", "{id}/delete/"])
def test_nobody_adds_or_deletes_a_job(boss, what):
    job = row(State.DEAD)

    response = boss.post(LIST + what.format(id=job.id), {"post": "yes"})

    assert response.status_code == 403
    assert Job.objects.count() == 1


def test_nobody_edits_a_job(boss):
    job = row(State.WAITING)
    before = stored(job.id)

    response = boss.post(page(job), {"kind": "test.other", "state": "succeeded"})

    assert response.status_code == 405
    assert stored(job.id) == before


def test_decision_needs_the_csrf_token(boss):
    job = row(State.DEAD)
    boss.handler.enforce_csrf_checks = True

    response = boss.post(page(job, "retry"))

    assert response.status_code == 403
    assert state(job) == State.DEAD


def test_queues_are_not_in_the_admin(boss):
    Queue.objects.create(name="default")

    assert boss.get("/admin/tasks/queue/").status_code == 404


# -- the list -----------------------------------------------------------------------------------


def test_list_tells_at_a_glance_what_failed_and_why(boss):
    row(State.DEAD, run=2, attempts=2, history=[failed(1), failed(2, "ValueError: no such month\nmore")])

    shown = boss.get(LIST).content.decode()

    assert '<span class="job-state job-state-dead">dead</span>' in shown
    assert "2 of 5" in shown
    assert '<span class="job-error">ValueError: no such month</span>' in shown
    assert ">5 min</span>" in shown


def test_error_is_shown_as_text_and_never_as_markup(boss):
    job = row(State.DEAD, history=[failed(1, "<script>alert(1)</script>")])

    shown = boss.get(LIST).content.decode() + boss.get(page(job)).content.decode()

    assert "<script>alert" not in shown
    assert "&lt;script&gt;alert" in shown


@pytest.mark.parametrize("wanted", State)
def test_list_can_be_narrowed_to_a_state(boss, wanted):
    jobs = {state: row(state).id for state in State}

    assert listed(boss, f"?state={wanted}") == {jobs[wanted]}


def test_list_can_be_narrowed_to_a_kind_and_a_queue(boss):
    both = row(State.WAITING, kind="signup.confirmation_email", queue="mail")
    row(State.WAITING, queue="mail")
    row(State.WAITING, kind="signup.confirmation_email")

    assert listed(boss, "?kind=signup.confirmation_email&queue=mail") == {both.id}


def test_kinds_to_choose_from_are_the_registered_ones(boss):
    row(State.WAITING, kind="gone.long_ago")

    with CaptureQueriesContext(
        connection,
    ) as queries:
        shown = boss.get(LIST).content.decode()

    assert "?kind=signup.confirmation_email" in shown
    assert "?kind=gone.long_ago" not in shown
    assert not any("DISTINCT" in query["sql"] for query in queries)


AGES = {"5min": {"new"}, "hour": {"new", "half"}, "day": {"new", "half", "hours"}, "older": {"old"}}


@pytest.mark.parametrize("age", AGES)
def test_list_can_be_narrowed_to_an_age(boss, age):
    ages = {"new": 1, "half": 30, "hours": 300, "old": 3000}
    now = database_now()
    jobs = {name: row(State.WAITING, enqueued_at=now - timedelta(minutes=ago)).id for name, ago in ages.items()}

    assert listed(boss, f"?age={age}") == {jobs[name] for name in AGES[age]}


@pytest.mark.parametrize(("age", "names"), [("due1", {"two", "twenty"}), ("due10", {"twenty"})])
def test_list_can_be_narrowed_to_jobs_that_wait_too_long(boss, age, names):
    now = database_now()
    jobs = {
        "two": row(State.WAITING, run_at=now - timedelta(minutes=2)).id,
        "twenty": row(State.RELAYED, run_at=now - timedelta(minutes=20)).id,
    }
    row(State.WAITING, run_at=now + timedelta(minutes=20))
    row(State.SUCCEEDED, run_at=now - timedelta(minutes=20))

    assert listed(boss, f"?age={age}") == {jobs[name] for name in names}


def test_search_finds_a_number_and_the_beginning_of_a_key(boss):
    first = row(State.WAITING, unique_key="welcome:42")
    second = row(State.WAITING, unique_key=f"{first.id}:x")
    row(State.WAITING, unique_key="un-welcome:42")

    assert listed(boss, "?q=welcome:") == {first.id}
    assert listed(boss, f"?q={first.id}") == {first.id, second.id}


@pytest.mark.parametrize("query", ["?q=%00", "?q=99999999999999999999999", "?q=%25", "?q=²", "?q=%D9%A3", "?p=999999"])
def test_odd_request_shows_a_list_and_no_error(boss, query):
    row(State.WAITING)

    assert boss.get(LIST + query, follow=True).status_code == 200


@pytest.mark.parametrize("query", ["?state=lost", "?kind=gone.long_ago", "?age=1", "?queue=%00"])
def test_action_on_a_filter_that_does_not_exist_changes_nothing(boss, query):
    job = row(State.WAITING)

    act(boss, "cancel", [job], query=query, select_across="1")

    assert state(job) == State.WAITING


@pytest.mark.parametrize("lookup", ["arguments__api_token__startswith=h", "history__icontains=h", "id__gt=0"])
def test_masked_secrets_cannot_be_guessed_through_the_address(boss, lookup):
    row(State.WAITING, arguments={"api_token": "hunter2"})

    assert boss.get(f"{LIST}?{lookup}").status_code == 400


def test_list_is_never_sorted_by_anything_but_the_newest_first(boss):
    urgent, newest = row(State.WAITING, priority=9), row(State.WAITING)

    response = boss.get(f"{LIST}?o=-9.2")

    assert [job.id for job in response.context["cl"].result_list] == [newest.id, urgent.id]


def test_list_of_many_is_not_counted_to_the_end(boss, monkeypatch):
    monkeypatch.setattr(words, "COUNTED", 150)
    Job.objects.bulk_create(Job(**consistent(State.WAITING)) for _ in range(200))

    with CaptureQueriesContext(connection) as queries:
        shown = boss.get(LIST).content.decode()

    counts = [query["sql"] for query in queries if "COUNT(" in query["sql"]]
    assert "more than 150 jobs" in shown
    assert counts
    assert all("LIMIT 151" in sql for sql in counts)


def test_list_does_not_read_the_arguments(boss):
    row(State.WAITING)

    with CaptureQueriesContext(connection) as queries:
        boss.get(LIST)

    assert not any('"arguments"' in query["sql"] for query in queries)


# -- a job's page -------------------------------------------------------------------------------


def test_page_shows_arguments_with_secrets_masked(boss):
    job = row(State.WAITING, arguments={"user_id": 4711, "api_token": "hunter2", "deep": [{"password": "hunter2"}]})

    shown = boss.get(page(job)).content.decode()

    assert "4711" in shown
    assert "hunter2" not in shown
    assert "[hidden]" in shown


def test_page_shows_every_failed_attempt_with_its_traceback(boss):
    job = row(State.DEAD, run=3, attempts=3, history=[failed(n, f"ValueError: number {n}") for n in (1, 2, 3)])

    shown = boss.get(page(job)).content.decode()

    assert shown.count("<summary>Traceback</summary>") == 3
    assert shown.index("attempt 3 of 5") < shown.index("attempt 2 of 5") < shown.index("attempt 1 of 5")
    assert "line 2\nValueError: number 2" in shown


def test_page_shows_who_decided_what_and_when(boss):
    job = row(State.DEAD)
    boss.post(page(job, "retry"))

    shown = " ".join(boss.get(page(job)).content.decode().split())

    at = stored(job.id)["history"][0]["at"][:19].replace("T", " ")
    assert f"{at} UTC</time> <strong>retried</strong> by user {boss.user.pk}" in shown


def test_page_explains_every_column(boss):
    job = row(State.RUNNING, checkpoint={"at": 1}, progress=40)

    shown = boss.get(page(job)).content.decode()

    columns = [field for field in Job._meta.fields if field.name not in ("id", "history")]
    assert [c.name for c in columns if f"field-{c.name}" not in shown] == []
    assert [c.name for c in columns if c.help_text not in shown] == []


@pytest.mark.parametrize("wanted", State)
def test_page_offers_the_decisions_that_fit_the_state(boss, wanted):
    job = row(wanted)

    shown = boss.get(page(job)).content.decode()

    offered = {verb for verb in VERBS if f'action="{page(job, verb)}"' in shown}
    assert offered == {name for name, verb in VERBS.items() if wanted in verb.states}


@pytest.mark.parametrize("what", ["", "{id}/change/", "{id}/cancel/"])
def test_pages_hold_no_inline_script_or_style(boss, what):
    shown = boss.get(LIST + what.format(id=row(State.WAITING).id)).content.decode()

    assert "style=" not in shown
    assert "onclick" not in shown
    assert "<script>" not in shown


def test_page_of_a_job_that_is_gone_is_not_found(boss):
    assert boss.post(f"{LIST}12345/retry/").status_code == 404


# -- deciding on a job's page -------------------------------------------------------------------


def test_retry_on_the_page_runs_the_job_again(boss):
    job = row(State.DEAD, run=5, attempts=5)

    response = boss.post(page(job, "retry"))

    assert (response.status_code, response.url) == (302, page(job))
    assert messages(response) == ["1 job will run again."]
    assert (state(job), stored(job.id)["attempts"]) == (State.WAITING, 0)


@pytest.mark.parametrize(("verb", "before"), [("discard", State.DEAD), ("cancel", State.RUNNING)])
def test_careful_decision_is_asked_about_before_anything_happens(boss, verb, before):
    job = row(before)
    untouched = stored(job.id)

    shown = boss.get(page(job, verb)).content.decode()

    assert f"{verb.capitalize()} 1 job?" in shown
    assert stored(job.id) == untouched


DECISIONS = [
    ("discard", State.DEAD, State.DISCARDED, "1 job was discarded."),
    ("cancel", State.WAITING, State.CANCELLED, "1 job was cancelled."),
    ("cancel", State.RELAYED, State.CANCELLED, "1 job was cancelled."),
    ("cancel", State.RUNNING, State.RUNNING, "1 job running now was asked to stop and is not tried again."),
]


@pytest.mark.parametrize(("verb", "before", "after", "sentence"), DECISIONS)
def test_confirmed_decision_is_carried_out_and_told(boss, verb, before, after, sentence):
    job = row(before)

    response = boss.post(page(job, verb))

    assert messages(response) == [sentence]
    assert state(job) == after
    assert stored(job.id)["history"][-1]["by"] == f"user {boss.user.pk}"


def test_decision_that_came_too_late_is_told(boss):
    job = row(State.SUCCEEDED)

    response = boss.post(page(job, "cancel"))

    assert messages(response) == ["1 job was not cancelled: only waiting, relayed or running ones can be."]
    assert state(job) == State.SUCCEEDED


def test_decision_is_in_the_admin_log_of_the_job(boss):
    job = row(State.DEAD)

    boss.post(page(job, "discard"))

    entry = LogEntry.objects.get()
    assert (entry.user, entry.object_id, entry.change_message) == (boss.user, str(job.id), "Discarded.")
    assert "Discarded." in boss.get(page(job, "history")).content.decode()


# -- deciding on the list -----------------------------------------------------------------------


def test_refused_retry_is_told_beside_those_that_worked(boss):
    dead = [row(State.DEAD) for _ in range(3)]
    taken = row(State.DEAD, unique_key="sync:1", unique_scope=Scope.LIVE)
    row(State.WAITING, unique_key="sync:1", unique_scope=Scope.LIVE)
    done = row(State.SUCCEEDED)

    response = act(boss, "retry", [*dead, taken, done])

    assert messages(response) == [
        "3 jobs will run again.",
        f"Job {taken.id} was not retried: a newer job with the same unique key has not finished yet. "
        "1 job was not retried: only dead ones can be.",
    ]


def test_job_that_left_the_filter_meanwhile_is_told_of(boss):
    moved_on = row(State.SUCCEEDED)

    response = act(boss, "retry", [moved_on], query="?state=dead")

    assert messages(response) == ["1 job was not retried: only dead ones can be."]


def test_cancel_on_the_list_asks_first_and_then_does_it(boss):
    waiting, running = row(State.WAITING), row(State.RUNNING)

    asked = boss.post(LIST, {"action": "cancel_selected", "_selected_action": [waiting.id, running.id]})
    before = state(waiting)
    hidden = asked.context["hidden"]
    boss.post(LIST, {name: [value for other, value in hidden if other == name] for name, _ in hidden})

    assert "Cancel 2 jobs?" in asked.content.decode()
    assert before == State.WAITING
    assert state(waiting) == State.CANCELLED
    assert stored(running.id)["cancel_requested_at"] is not None


def test_select_across_acts_on_what_matches_the_filter_and_nothing_else(boss):
    mail = [row(State.DEAD, queue="mail") for _ in range(3)]
    other = row(State.DEAD)

    act(boss, "discard", mail[:1], query="?queue=mail", select_across="1")

    assert [state(job) for job in mail] == [State.DISCARDED] * 3
    assert state(other) == State.DEAD


def test_without_select_across_only_the_ticked_jobs_are_touched(boss):
    ticked, other = row(State.DEAD), row(State.DEAD)

    act(boss, "discard", [ticked], query="?state=dead")

    assert (state(ticked), state(other)) == (State.DISCARDED, State.DEAD)


def test_five_hundred_dead_jobs_are_retried_in_one_go(boss):
    Job.objects.bulk_create(Job(**consistent(State.DEAD, run=5, attempts=5)) for _ in range(500))
    first = Job.objects.first()

    response = act(boss, "retry", [first], query="?state=dead", select_across="1")

    assert messages(response) == ["500 jobs will run again."]
    assert Job.objects.filter(state=State.WAITING, attempts=0).count() == 500
    assert LogEntry.objects.count() == 500


def test_decision_about_too_many_jobs_stops_in_time_and_says_so(boss):
    Job.objects.bulk_create(Job(**consistent(State.DEAD)) for _ in range(BATCH + 1))
    looks = iter([True, False])

    outcome = decide_all(
        VERBS["discard"], Job.objects.all(), by="user 1", record=lambda jobs: None, may_go_on=lambda: next(looks)
    )

    assert (outcome.changed, outcome.is_complete) == (BATCH, False)
    assert Job.objects.filter(state=State.DEAD).count() == 1


def test_job_enqueued_after_the_decision_began_is_not_swept_along(boss):
    job = row(State.WAITING)

    decide_all(VERBS["cancel"], Job.objects.all(), by="user 1", record=lambda jobs: row(State.WAITING))

    assert state(job) == State.CANCELLED
    assert Job.objects.filter(state=State.WAITING).count() == 1


# -- words --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-5, "0 s"), (0, "0 s"), (59.9, "59 s"), (60, "1 min"), (3599, "59 min"), (3600, "1 h"), (172_800, "2 d")],
)
def test_span_is_told_in_its_largest_unit(seconds, text):
    assert words.span(timedelta(seconds=seconds)) == text
