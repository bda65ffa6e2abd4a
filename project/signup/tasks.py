"""The jobs of a signup. Each may run more than once: what it does is marked, and the mark is looked at first."""

import logging

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.exceptions import ObjectDoesNotExist
from django.db import transaction

from project.signup import emails, notify, welcome, welcome_files
from project.signup.models import Signup, SignupRequest
from tasks.api import PermanentError, RetryLater, database_now, enqueue, job

log = logging.getLogger(__name__)

LOOK_AGAIN_S = 5
STEPS = 2  # of the welcome page, before it is published


@job("signup.confirmation_email", queue="mail")
def confirmation_email(request_id: int) -> None:
    """Mail the address of a request, unless another job has just done it.

    Raises: RetryLater while another job is about to: should that one die, this one sends;
    SignupRequest.DoesNotExist (permanent) when the account was deleted; as emails.send.
    """
    request = SignupRequest.objects.select_related("signup__user").get(id=request_id)
    if Signup.objects.claim_mail(request.signup_id, request.job_id, database_now()):
        emails.send(emails.of_request(request))
        Signup.objects.mark_mail_sent(request.signup_id, request.job_id, database_now())
    elif Signup.objects.is_mail_under_way(request.signup_id):
        raise RetryLater(LOOK_AGAIN_S)


@job("signup.welcome_pdf", queue="pdf", bind=True, max_running=1, soft_time_limit_s=60, time_limit_s=90)
def welcome_pdf(running, user_id: int) -> None:
    """Make a person's welcome page step by step; when it is there, let the next job mail it.

    Each step's work is a file beside the page, and the checkpoint says which steps are done: a run that a shutdown
    cuts short, or that is killed, is gone on with where it was.
    Shape: the checkpoint is {"page": mark, "step": steps done}.
    Raises: RetryLater when the worker stops; Signup.DoesNotExist or User.DoesNotExist (permanent) when the account
    was deleted; PermanentError as page_of; OSError, e.g. for a full disk.
    """
    try:
        page = page_of(Signup.objects.select_related("user").get(user_id=user_id))
        for step in range(steps_done(page, user_id, running.checkpoint) + 1, STEPS + 1):
            take_step(page, user_id, step)
            running.save_checkpoint({"page": page.mark, "step": step})
            running.report_progress(100 * step // (STEPS + 1))
            log.info("job %s.%s: step %s of %s is done", running.id, running.run, step, STEPS)
            if running.should_stop() and step < STEPS:  # after the last one only a rename is left
                raise RetryLater(1)
        publish(user_id)
    except ObjectDoesNotExist:
        welcome_files.remove_parts(user_id)
        raise
    welcome_files.remove_parts(user_id)


def page_of(signup: Signup) -> welcome.Page:
    """Return what a person's page says; a name that a viewer could make a link of is left out, as in mails.

    Raises: PermanentError for an address that is not confirmed.
    """
    if signup.confirmed_at is None:
        raise PermanentError(f"The address of user {signup.user_id} is not confirmed; it is welcomed once it is.")
    return welcome.Page(
        name=emails.harmless(signup.user.name),
        address=signup.user.email,
        site=settings.SITE_URL,
        confirmed_at=signup.confirmed_at,
    )


def steps_done(page: welcome.Page, user_id: int, checkpoint: dict | None) -> int:
    """Return how many steps need not be taken again: those for this very page whose file is still there."""
    step = checkpoint["step"] if checkpoint and checkpoint["page"] == page.mark else 0
    return step if step and welcome_files.part(user_id, step).exists() else 0


def take_step(page: welcome.Page, user_id: int, step: int) -> None:
    """Do one step and keep its work as a file. Units: steps count from 1."""
    font, target = welcome_files.part(user_id, 1), welcome_files.part(user_id, step)
    welcome_files.keep(target, welcome.cut_font(page) if step == 1 else welcome.draw(page, font))


def publish(user_id: int) -> None:
    """Put the page in its place and enqueue its mail.

    Locks: the user, so that no page appears after its person was deleted.
    Raises: User.DoesNotExist.
    """
    with transaction.atomic():
        get_user_model().objects.select_for_update(no_key=True).get(pk=user_id)
        welcome_files.publish(user_id)
        enqueue("signup.welcome_email", user_id=user_id, unique_key=f"welcome:{user_id}")


@job("signup.welcome_email", queue="mail", bind=True)
def welcome_email(running, user_id: int) -> None:
    """Mail a person's welcome page, once.

    Raises: RetryLater while another job is about to; Signup.DoesNotExist (permanent) when the account was deleted;
    WelcomeMissing when the page is not there; as emails.send.
    """
    signup = Signup.objects.select_related("user").get(user_id=user_id)
    if signup.welcome_sent_at is not None:
        return
    pdf = welcome_files.read(user_id)
    if not Signup.objects.claim_welcome(signup.id, running.id, database_now()):
        raise RetryLater(LOOK_AGAIN_S)
    emails.send(emails.of_welcome(signup, pdf))
    Signup.objects.mark_welcome_sent(signup.id, running.id, database_now())


@job(
    "signup.notify_team",
    queue="webhook",  # whoever is down for hours has a backlog, and the relay looks for other kinds behind it
    rate_limit=notify.RATE,
    max_running=1,  # a webhook that does not answer holds up one worker process at most
    max_attempts=12,
    backoff_cap_s=3_600,  # with twelve attempts it outlasts an outage of some hours
    soft_time_limit_s=15,
    time_limit_s=20,
)
def notify_team(signup_id: int) -> None:
    """Tell the team of a confirmed signup.

    Raises: Signup.DoesNotExist (permanent) when the account was deleted; as notify.post.
    """
    notify.post(Signup.objects.get(id=signup_id))
