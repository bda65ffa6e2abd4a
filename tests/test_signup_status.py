"""The status page: every state in words, and nothing that tells a fresh address from a known one."""

import re

import pytest
from django.utils import timezone

from project.signup.models import Signup, SignupRequest
from project.signup.services import WORDS, sign_up
from tasks.models import Job
from tasks.states import State

pytestmark = pytest.mark.django_db

ANN = {"name": "Ann", "email": "ann@example.com", "password": "seven blue kettles"}


def without_token(html: str) -> str:
    """Return a page without what is different for every request."""
    return re.sub(r"/signup/[\w-]{32}/", "/signup/TOKEN/", html)


def test_answer_page_and_status_are_the_same_for_a_fresh_and_a_known_address(client):
    answers = [client.post("/", ANN | {"email": email}) for email in ("ann@example.com", "Ann@Example.com")]

    pages = [client.get(answer["Location"]).content.decode() for answer in answers]
    states = [client.get(answer["Location"] + "status").json() for answer in answers]
    assert [answer.status_code for answer in answers] == [303, 303]
    assert without_token(pages[0]) == without_token(pages[1])
    assert states[0] == states[1]


def test_status_tells_nothing_of_a_confirmation(client):
    request = sign_up(**ANN)
    before = client.get(f"/signup/{request.token}/status").json()
    Signup.objects.update(confirmed_at=timezone.now())

    after = client.get(f"/signup/{request.token}/status").json()

    assert before == after


@pytest.mark.parametrize("token", ["x", "A" * 32, "a" * 5000, "%00", "..%2f", "%ff"])
def test_unknown_token_is_404(client, token):
    pages = [client.get(f"/signup/{token}/{rest}") for rest in ("", "status")]

    assert [page.status_code for page in pages] == [404, 404]
    assert "There is no such page" in pages[0].content.decode()


def test_page_and_status_are_not_stored_by_anybody(client):
    request = sign_up(**ANN)

    pages = [client.get(f"/signup/{request.token}/{rest}") for rest in ("", "status")]

    assert all("no-store" in page["Cache-Control"] for page in pages)
    assert all(page["Referrer-Policy"] == "same-origin" for page in pages)


def test_status_shows_the_job(client):
    request = sign_up(**ANN)

    status = client.get(f"/signup/{request.token}/status").json()

    assert status == {
        "is_finished": False,
        "jobs": [
            {
                "label": "Mail to your address",
                "kind": "signup.confirmation_email",
                "state": "waiting",
                "words": "waiting its turn",
                "attempt": 1,
                "max_attempts": 5,
                "progress": None,
                "is_finished": False,
            }
        ],
    }


@pytest.mark.parametrize(
    ("changes", "words", "attempt", "progress", "is_finished"),
    [
        ({"state": "relayed"}, "handed to a worker", 1, None, False),
        ({"state": "running", "attempts": 1, "progress": 40}, "running", 1, 40, False),
        ({"state": "waiting", "attempts": 2}, "waiting to try again", 3, None, False),
        ({"state": "succeeded", "attempts": 3}, "done", 3, 100, True),
        ({"state": "dead", "attempts": 5}, "stopped: we are looking at it", 5, None, True),
        ({"state": "cancelled"}, "cancelled", 1, None, True),
        ({"state": "discarded", "attempts": 5}, "given up", 5, None, True),
    ],
)
def test_every_state_has_words_for_people(client, changes, words, attempt, progress, is_finished):
    request, now = sign_up(**ANN), timezone.now()
    times = {"relayed_at": now, "started_at": now, "worker": "w", "child_pid": 1, "run": 5}
    times["finished_at"] = now if is_finished else None
    Job.objects.update(**times | changes)

    status = client.get(f"/signup/{request.token}/status").json()
    html = client.get(f"/signup/{request.token}/").content.decode()

    job = status["jobs"][0]
    assert (job["words"], job["attempt"], job["progress"]) == (words, attempt, progress)
    assert (job["is_finished"], status["is_finished"]) == (is_finished, is_finished)
    assert f'data-kind="signup.confirmation_email" data-state="{changes["state"]}"' in html
    assert f"attempt {attempt} of 5" in html and words in html


def test_every_state_of_a_job_has_words():
    assert set(WORDS) == set(State.values)


def test_page_refreshes_itself_without_script_until_all_is_finished(client):
    request = sign_up(**ANN)
    before = client.get(f"/signup/{request.token}/").content.decode()
    Job.objects.update(state="succeeded", finished_at=timezone.now())

    after = client.get(f"/signup/{request.token}/").content.decode()

    assert '<noscript><meta http-equiv="refresh"' in before
    assert "http-equiv" not in after and "<script" not in after


def test_page_outlives_the_pruned_job(client):
    request = sign_up(**ANN)
    Job.objects.all().delete()

    response = client.get(f"/signup/{request.token}/")

    assert response.status_code == 200
    assert client.get(f"/signup/{request.token}/status").json() == {"is_finished": True, "jobs": []}
    assert SignupRequest.objects.get().job_id == request.job_id
