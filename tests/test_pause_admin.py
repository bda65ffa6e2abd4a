"""Pauses in Django admin: what a person may choose, and what adding and deleting do."""

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission

from tasks.models import Job, Pause
from tasks.pauses import pause
from tasks.states import State
from tests.rows import row

pytestmark = pytest.mark.django_db

LIST = "/admin/tasks/pause/"


@pytest.fixture
def boss(client):
    """A client whose user may do everything."""
    client.user = get_user_model().objects.create_superuser(email="boss@example.com", password="x" * 12)
    client.force_login(client.user)
    return client


def test_adding_pauses_and_takes_back_what_was_handed_over(boss):
    job = row(State.RELAYED, kind="test.noop")

    response = boss.post(f"{LIST}add/", {"target": "kind test.noop"})

    assert response.status_code == 302, response.context["errors"]
    made = Pause.objects.get()
    assert (made.what, made.name, made.by) == ("kind", "test.noop", f"user {boss.user.pk}")
    assert Job.objects.get(id=job.id).state == State.WAITING


def test_deleting_resumes(boss):
    made = pause("queue", "mail", "user 1")

    boss.post(f"{LIST}{made.pk}/delete/", {"post": "yes"})

    assert not Pause.objects.exists()


def test_several_are_resumed_at_once(boss):
    made = [pause("queue", "mail", "user 1"), pause("kind", "test.noop", "user 1")]

    ticked = [row.pk for row in made]
    boss.post(LIST, {"action": "resume_selected", "_selected_action": ticked})

    assert not Pause.objects.exists()


def test_page_of_a_pause_can_be_read(boss):
    made = pause("queue", "mail", "user 7")

    page = boss.get(f"{LIST}{made.pk}/change/").content.decode()

    assert "user 7" in page


def test_list_says_what_is_paused_since_when_and_by_whom(boss):
    pause("queue", "mail", "user 7")

    page = boss.get(LIST).content.decode()

    assert "mail" in page
    assert "user 7" in page
    assert "0 s ago" in page or "1 s ago" in page


@pytest.mark.parametrize(
    ("target", "says"),
    [("queue mail", "The queue mail is paused already."), ("kind test.nothing", "Select a valid choice")],
)
def test_nonsense_is_refused_in_words(boss, target, says):
    pause("queue", "mail", "user 1")

    response = boss.post(f"{LIST}add/", {"target": target})

    assert says in response.content.decode()
    assert Pause.objects.count() == 1


def test_who_may_only_view_cannot_pause_or_resume(client):
    user = get_user_model().objects.create_user(email="staff@example.com", password="x" * 12, is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename="view_pause"))
    client.force_login(user)
    made = pause("queue", "mail", "user 1")

    answers = [
        client.get(LIST),
        client.post(f"{LIST}add/", {"target": "queue default"}),
        client.post(f"{LIST}{made.pk}/delete/", {"post": "yes"}),
    ]

    assert [answer.status_code for answer in answers] == [200, 403, 403]
    assert Pause.objects.count() == 1
