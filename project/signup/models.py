"""What is known of a signup: whether the address is confirmed, and which jobs answer for its mails."""

import secrets
from datetime import datetime, timedelta

from django.apps import apps
from django.conf import settings
from django.core.signing import TimestampSigner
from django.db import models
from django.db.models import Exists, OuterRef, Q
from django.utils.crypto import salted_hmac

# At most one mail per address in this time, however often somebody signs up. What remains of it: within ten minutes of
# a stranger's request the owner gets only the stranger's mail. It tells the name and the time that request was made
# with, and says that its link sets the password chosen then.
MAIL_EVERY = timedelta(minutes=10)
LINK_VALID_S = 3 * 86_400
SIGNER = TimestampSigner(salt="signup.confirm")


def new_token() -> str:
    """Return 32 characters that nobody can guess (192 bits)."""
    return secrets.token_urlsafe(24)


def lives(column: str) -> Exists:
    """Return the condition that the job whose id a column of the row holds has not finished."""
    # OuterRef, not a join: a join becomes `id IN (...)`, which lets two jobs through that claim at the same time.
    return Exists(apps.get_model("tasks", "Job").objects.filter(id=OuterRef(column), finished_at__isnull=True))


class SignupQuerySet(models.QuerySet):
    """The verbs: each is one conditional UPDATE and returns how many rows it changed, 0 or 1."""

    def claim_mail(self, signup_id: int, job_id: int, now: datetime) -> int:
        """Make a job the one that mails this address.

        Shape: 0 when it has sent already, another job has within MAIL_EVERY, or another one is about to.
        """
        is_given_up = Q(mail_sent_at__isnull=True) & ~lives("mail_job_id")
        is_mine_unsent = Q(mail_job_id=job_id, mail_sent_at__isnull=True)
        is_outdated = ~Q(mail_job_id=job_id) & Q(mail_sent_at__lt=now - MAIL_EVERY)
        return self.filter(is_given_up | is_mine_unsent | is_outdated, id=signup_id).update(
            mail_job_id=job_id, mail_claimed_at=now, mail_sent_at=None
        )

    def is_mail_under_way(self, signup_id: int) -> bool:
        """Tell whether a job has claimed the mail and not sent it."""
        return self.filter(id=signup_id, mail_job_id__isnull=False, mail_sent_at__isnull=True).exists()

    def mark_mail_sent(self, signup_id: int, job_id: int, now: datetime) -> int:
        """Remember that the job's mail has left."""
        return self.filter(id=signup_id, mail_job_id=job_id, mail_sent_at__isnull=True).update(mail_sent_at=now)

    def claim_welcome(self, signup_id: int, job_id: int, now: datetime) -> int:
        """Make a job the one that mails the welcome. Shape: 0 when it was sent, or another one is about to."""
        is_mine = Q(welcome_job_id=job_id)
        return self.filter(is_mine | ~lives("welcome_job_id"), id=signup_id, welcome_sent_at__isnull=True).update(
            welcome_job_id=job_id, welcome_claimed_at=now
        )

    def mark_welcome_sent(self, signup_id: int, job_id: int, now: datetime) -> int:
        """Remember that the welcome has left."""
        mine = self.filter(id=signup_id, welcome_job_id=job_id, welcome_sent_at__isnull=True)
        return mine.update(welcome_sent_at=now)

    def confirm(self, signup_id: int, now: datetime) -> int:
        """Remember that the address is its owner's."""
        return self.filter(id=signup_id, confirmed_at__isnull=True).update(confirmed_at=now)


class Signup(models.Model):
    """One per person, however often the form was sent."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, help_text="Whose it is.")
    confirmed_at = models.DateTimeField(null=True, blank=True, help_text="The link in the mail was followed.")
    mail_job_id = models.BigIntegerField(null=True, blank=True, help_text="The job that answers for the last mail.")
    mail_claimed_at = models.DateTimeField(null=True, blank=True, help_text="That job last began to send.")
    mail_sent_at = models.DateTimeField(null=True, blank=True, help_text="The mail server took that job's mail.")
    welcome_job_id = models.BigIntegerField(null=True, blank=True, help_text="The job that answers for the welcome.")
    welcome_claimed_at = models.DateTimeField(null=True, blank=True, help_text="That job last began to send.")
    welcome_sent_at = models.DateTimeField(null=True, blank=True, help_text="The mail server took the welcome.")
    created_at = models.DateTimeField(auto_now_add=True, help_text="The first request.")

    objects = SignupQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="signup_mail_claim_whole",
                condition=Q(mail_job_id__isnull=True, mail_claimed_at__isnull=True, mail_sent_at__isnull=True)
                | Q(mail_job_id__isnull=False, mail_claimed_at__isnull=False),
            ),
            models.CheckConstraint(
                name="signup_welcome_claim_whole",
                condition=Q(welcome_job_id__isnull=True, welcome_claimed_at__isnull=True, welcome_sent_at__isnull=True)
                | Q(welcome_job_id__isnull=False, welcome_claimed_at__isnull=False),
            ),
        ]

    def __str__(self):
        return f"signup {self.pk}"


class SignupRequest(models.Model):
    """One per POST, also for an address that is known: nobody can tell them apart."""

    signup = models.ForeignKey(Signup, on_delete=models.CASCADE, related_name="requests", help_text="Of which person.")
    name = models.CharField(max_length=150, default="", help_text="As typed; the account's once this is confirmed.")
    password = models.CharField(max_length=128, default="", help_text="Hashed; empty once any of them is confirmed.")
    token = models.CharField(max_length=32, unique=True, default=new_token, help_text="Address of the status page.")
    # No constraint: jobs are pruned after a day, and the request keeps the id that the mail marks are compared with.
    job = models.ForeignKey(
        "tasks.Job",
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        null=True,
        related_name="+",
        help_text="The job enqueued for it.",
    )
    created_at = models.DateTimeField(auto_now_add=True, help_text="When the form was sent.")

    def __str__(self):
        return f"signup request {self.pk}"

    def signed_link(self) -> str:
        """Return what a link in a mail proves with, for LINK_VALID_S: this request, and the address it is mailed to."""
        return SIGNER.sign(f"{self.pk}.{self.address_mark()}")

    def address_mark(self) -> str:
        """Return what the account's address is recognised by; nobody can read it back from a link."""
        return salted_hmac("signup.confirm.address", self.signup.user.email, algorithm="sha256").hexdigest()[:16]

    @staticmethod
    def read_link(signed: str) -> tuple[int, str]:
        """Return the request's id and the mark of the address that a link was mailed to.

        Raises: SignatureExpired; BadSignature for anything that is not ours.
        """
        request_id, _, mark = SIGNER.unsign(signed, max_age=LINK_VALID_S).partition(".")
        return int(request_id), mark
