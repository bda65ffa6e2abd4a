"""Sign somebody up in one transaction, and tell how its jobs are doing."""

from datetime import datetime

from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.hashers import make_password
from django.core.signing import BadSignature, SignatureExpired
from django.db import transaction

from project.accounts.addresses import canonical_email
from project.signup.models import Signup, SignupRequest
from tasks.api import enqueue

LABELS = {"signup.confirmation_email": "Mail to your address"}
WORDS = {
    "waiting": "waiting its turn",
    "relayed": "handed to a worker",
    "running": "running",
    "succeeded": "done",
    "dead": "stopped: we are looking at it",
    "cancelled": "cancelled",
    "discarded": "given up",
}


def sign_up(*, name: str, email: str, password: str) -> SignupRequest:
    """Write the user, unless the address is known, and the job that mails it.

    Nobody can sign in before the address is confirmed: the request keeps the password until then, since whoever
    signs up first need not be the owner.
    Shape: the same queries and the same work for a fresh and a known address, so that time tells nothing.
    Raises: ValidationError for what is no address; then nothing was written.
    """
    email = canonical_email(email)
    hashed = make_password(password)  # before the transaction: slow by design, and always
    with transaction.atomic():
        signup = _signup_of(name, email)
        kept = "" if signup.confirmed_at else hashed
        request = SignupRequest.objects.create(signup=signup, name=name, password=kept)
        request.job = enqueue("signup.confirmation_email", request_id=request.id, unique_key=f"confirm:{request.id}")
        request.save(update_fields=["job"])
    return request


def _signup_of(name: str, email: str) -> Signup:
    """Return the address's signup, made with an account that has no password when there is none."""
    users, signups = get_user_model().objects, Signup.objects
    users.bulk_create([users.model(email=email, name=name, password=make_password(None))], ignore_conflicts=True)
    user = users.get(email=email)
    signups.bulk_create([Signup(user=user)], ignore_conflicts=True)
    return signups.get(user=user)


def confirm(signed: str, now: datetime) -> str:
    """Confirm the address that a link was mailed to; the first time, the account gets that request's name and password.

    That time also enqueues the welcome, in the same transaction.
    Shape: confirmed, confirmed before, expired, forged, moved when the account has another address now, or gone when
    it was deleted.
    Locks: request, signup and user, so that the address stays what it was compared with.
    """
    try:
        request_id, mark = SignupRequest.read_link(signed)
    except SignatureExpired:
        return "expired"
    except BadSignature:
        return "forged"
    with transaction.atomic():
        known = SignupRequest.objects.select_for_update(no_key=True).select_related("signup__user")
        if (request := known.filter(id=request_id).first()) is None:
            return "gone"
        if request.address_mark() != mark:
            return "moved"
        if not Signup.objects.confirm(request.signup_id, now):
            return "confirmed before"
        users = get_user_model().objects
        users.set_first_password(request.signup.user_id, name=request.name, password=request.password)
        request.signup.requests.update(password="")
        user_id = request.signup.user_id
        enqueue("signup.welcome_pdf", user_id=user_id, unique_key=f"welcome:{user_id}")
        if settings.TEAM_WEBHOOK_URL:
            enqueue("signup.notify_team", signup_id=request.signup_id, unique_key=f"notify:{request.signup_id}")
    return "confirmed"


def status_of(token: str) -> dict | None:
    """Return what the holder of a token may see, None for an unknown one.

    Shape: {"is_finished", "jobs": [{label, kind, state, words, attempt, max_attempts, progress, is_finished}]}, from
    the job alone, never from the account. So a known address looks like a fresh one, but for one thing: the job is
    done at once, or waits for another one, when somebody else asked for the same address in the last ten minutes.
    A job that was pruned is not listed.
    Units: progress in percent, None when the job does not tell.
    """
    request = SignupRequest.objects.select_related("job").filter(token=token).first()
    if request is None:
        return None
    jobs = [_job_status(request.job)] if request.job else []
    return {"is_finished": all(job["is_finished"] for job in jobs), "jobs": jobs}


def _job_status(job) -> dict:
    is_between_attempts = job.state == "waiting" and job.attempts > 0
    attempt = job.attempts + (job.state in ("waiting", "relayed"))
    return {
        "label": LABELS.get(job.kind, job.kind),
        "kind": job.kind,
        "state": job.state,
        "words": "waiting to try again" if is_between_attempts else WORDS[job.state],
        "attempt": min(max(attempt, 1), job.max_attempts),
        "max_attempts": job.max_attempts,
        "progress": 100 if job.state == "succeeded" else job.progress,
        "is_finished": job.is_finished,
    }
