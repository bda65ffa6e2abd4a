"""The jobs of a signup. Each may run more than once: what it does is marked, and the mark is looked at first."""

from project.signup import emails
from project.signup.models import Signup, SignupRequest
from tasks.api import RetryLater, database_now, job

LOOK_AGAIN_S = 5


@job("signup.confirmation_email", queue="mail")
def confirmation_email(request_id: int) -> None:
    """Mail the address of a request, unless another job has just done it.

    Raises: RetryLater while another job is about to: should that one die, this one sends;
    SignupRequest.DoesNotExist (permanent) when the account was deleted; as emails.send.
    """
    request = SignupRequest.objects.select_related("signup__user").get(id=request_id)
    if Signup.objects.claim_mail(request.signup_id, request.job_id, database_now()):
        emails.send(request)
        Signup.objects.mark_mail_sent(request.signup_id, request.job_id, database_now())
    elif Signup.objects.is_mail_under_way(request.signup_id):
        raise RetryLater(LOOK_AGAIN_S)
