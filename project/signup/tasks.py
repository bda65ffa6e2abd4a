"""The jobs of a signup. Each may run more than once: what it does is marked, and the mark is looked at first."""

from django.utils import timezone

from project.signup import emails
from project.signup.models import Signup, SignupRequest
from tasks.api import job


@job("signup.confirmation_email", queue="mail")
def confirmation_email(request_id: int) -> None:
    """Mail the address of a request, unless another job has just done it or is about to.

    Raises: SignupRequest.DoesNotExist (permanent) when the account was deleted; as emails.send.
    """
    request = SignupRequest.objects.select_related("signup__user").get(id=request_id)
    if not Signup.objects.claim_mail(request.signup_id, request.job_id, timezone.now()):
        return
    emails.send(request)
    Signup.objects.mark_mail_sent(request.signup_id, request.job_id, timezone.now())
