"""Who may sign in: an address and a password."""

from django.contrib.auth.hashers import UNUSABLE_PASSWORD_PREFIX, make_password
from django.contrib.auth.models import AbstractBaseUser, BaseUserManager, PermissionsMixin
from django.core.exceptions import ValidationError
from django.db import models, transaction
from django.utils import timezone

from project.accounts.addresses import canonical_email
from tasks.api import draft, enqueue_many


def enqueue_removal(user_ids: list[int]) -> None:
    """Let a job for each remove what is kept in files about a deleted user; call it in the deletion's transaction."""
    enqueue_many(draft("accounts.remove_files", user_id=id) for id in user_ids)


class UserQuerySet(models.QuerySet):
    """Many users."""

    def delete(self) -> tuple[int, dict[str, int]]:
        """Delete them as User.delete does; the admin's action and loops over users come through here."""
        with transaction.atomic():
            enqueue_removal(list(self.values_list("pk", flat=True)))
            return super().delete()

    delete.alters_data = True
    delete.queryset_only = True


class UserManager(BaseUserManager.from_queryset(UserQuerySet)):
    """Make and find users by address; there is no user name."""

    def create_user(self, email: str, password: str | None = None, **fields) -> "User":
        """Make a user; without a password nobody can sign in as it.

        Raises: ValidationError for what is no address; IntegrityError for one that is taken.
        """
        return self.create(email=canonical_email(email), password=make_password(password), **fields)

    def create_superuser(self, email: str, password: str | None = None, **fields) -> "User":
        """Make a staff user with all rights.

        Raises: as create_user.
        """
        return self.create_user(email, password, **{"is_staff": True, "is_superuser": True} | fields)

    def set_first_password(self, user_id: int, *, name: str, password: str) -> int:
        """Give a name and a hashed password to an account that has none; return how many rows changed, 0 or 1.

        Shape: 0 for staff and for an account with a password: a person made it, and signing up does not take it over.
        """
        fresh = self.filter(password__startswith=UNUSABLE_PASSWORD_PREFIX, is_staff=False, is_superuser=False)
        return fresh.filter(pk=user_id).update(name=name, password=password)

    def get_by_natural_key(self, email: str) -> "User":
        """Return the user of an address, however it is spelled.

        Raises: User.DoesNotExist, also for what is no address.
        """
        try:
            return self.get(email=canonical_email(email))
        except ValidationError:
            raise self.model.DoesNotExist("No user has this address.") from None


class User(AbstractBaseUser, PermissionsMixin):
    """A person, known by a canonical address: lower case, the domain in its ASCII form."""

    email = models.EmailField(
        "e-mail address",
        unique=True,
        max_length=254,
        help_text="Canonical: one address, one row.",
        error_messages={"unique": "A user with this address exists already."},
    )
    name = models.CharField(max_length=150, blank=True, help_text="As the person wrote it.")
    is_staff = models.BooleanField("staff", default=False, help_text="May sign in to the admin site.")
    is_active = models.BooleanField("active", default=True, help_text="May sign in. Untick instead of deleting.")
    date_joined = models.DateTimeField(default=timezone.now, help_text="When the account was made.")

    objects = UserManager()

    EMAIL_FIELD = "email"
    USERNAME_FIELD = "email"
    REQUIRED_FIELDS = []

    class Meta:
        verbose_name = "user"
        verbose_name_plural = "users"

    def __str__(self):
        """Name the row without personal data: this text reaches logs."""
        return f"user {self.pk}"

    def delete(self, *args, **options) -> tuple[int, dict[str, int]]:
        """Delete the row with all that hangs on it, and in the same transaction enqueue the removal of its files."""
        with transaction.atomic():
            enqueue_removal([self.pk])
            return super().delete(*args, **options)

    delete.alters_data = True

    def clean(self):
        """Bring the address to its one spelling, for every model form."""
        self.email = canonical_email(self.email)

    def get_full_name(self) -> str:
        """Return the name for people, or the address when there is none."""
        return self.name or self.email

    def get_short_name(self) -> str:
        """Return the same: names do not split the same way everywhere."""
        return self.get_full_name()
