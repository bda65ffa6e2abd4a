"""From the form to the welcome mail through real processes, and a worker that is stopped in the middle of the page."""

import re
from urllib.parse import urlsplit

import pytest
from django.db import connection, transaction
from django.utils import timezone

from project.signup import welcome_files
from project.signup.models import Signup
from project.signup.services import confirm, sign_up
from tasks.models import Job
from tasks.states import State
from tests.kit import wait_until
from tests.welcome import text_of

ANNA = {"name": "Анна Каренина", "email": "anna@example.com", "password": "seven blue kettles"}


def test_signup_that_is_confirmed_gets_one_welcome_mail_with_its_page(kit, smtp, client):
    """Form, mail, link, page, mail: as a person sees it, with the link followed twice."""
    kit.extra_env = smtp.env
    kit.start("relay")
    kit.start("worker")
    client.post("/", ANNA)
    asked = wait_until(lambda: smtp.mails, 30, "the confirmation mail")[0].message
    path = urlsplit(re.search(r"https?://\S+/confirm/\S+", asked.get_payload(decode=True).decode())[0]).path

    client.get(path), client.get(path)

    welcome = wait_until(lambda: smtp.mails[1:], 30, "the welcome mail")[0]
    wait_until(lambda: not Job.objects.exclude(state=State.SUCCEEDED).exists(), 20, "every job has succeeded")
    (attached,) = [part for part in welcome.message.walk() if part.get_content_type() == "application/pdf"]
    assert (welcome.recipients, attached.get_filename()) == (("anna@example.com",), "welcome.pdf")
    assert "Welcome, Анна Каренина" in text_of(attached.get_payload(decode=True))
    assert len(smtp.mails) == 2
    assert Job.objects.filter(kind__startswith="signup.welcome").count() == 2


@pytest.mark.rung("postgresql+redis")
def test_page_that_a_shutdown_cuts_short_is_gone_on_with_by_another_worker(kit):
    """SIGTERM while the job runs: it keeps its first step, costs no attempt, and the next worker does the rest."""
    confirm(sign_up(**ANNA).signed_link(), timezone.now())
    user_id, job = Signup.objects.get().user_id, Job.objects.get(kind="signup.welcome_pdf")
    kit.start("relay")
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("LOCK TABLE signup_signup")  # the handler's first look waits until this block ends
        first = kit.start("worker")
        wait_until(lambda: Job.objects.filter(id=job.id, state=State.RUNNING).exists(), 30, "the job runs")

        first.terminate()
        first.wait_for_line("Warm shutdown")

    assert first.wait(30) == 0
    between = Job.objects.get(id=job.id)
    assert (between.run, between.attempts, between.progress) == (1, 0, 33)
    assert between.checkpoint["step"] == 1 and welcome_files.part(user_id, 1).exists()
    assert not welcome_files.finished(user_id).exists()
    second = kit.start("worker")
    wait_until(lambda: Job.objects.filter(id=job.id, state=State.SUCCEEDED).exists(), 30, "the job succeeds")
    assert "Welcome, Анна Каренина" in text_of(welcome_files.read(user_id))
    assert Job.objects.get(id=job.id).attempts == 1
    assert f"job {job.id}.2: step 2 of 2" in second.output and f"job {job.id}.2: step 1" not in second.output
