"""Who may sign in: an address and a password."""

from django.contrib.auth.models import AbstractUser, UserManager
from django.db import models


class AccountManager(UserManager):
    """Make users by address; there is no user name."""

    def create_superuser(self, email: str, password: str | None = None, **fields):
        """Make a staff user with all rights."""
        return self.create(
            email=email, password=self._hashed(password), is_staff=True, is_superuser=True, **fields
        )

    @staticmethod
    def _hashed(password: str | None) -> str:
        from django.contrib.auth.hashers import make_password

        return make_password(password)


class User(AbstractUser):
    """A person, known by a canonical address: lower case, the domain in its ASCII form."""

    username = None
    first_name = None
    last_name = None
    email = models.EmailField(unique=True, max_length=254, help_text="Canonical: one address, one row.")
    name = models.CharField(max_length=150, blank=True, help_text="As the person wrote it.")

    objects = AccountManager()

    USERNAME_FIELD = "email"
    REQUIRED_FIELDS = []

    def __str__(self):
        return f"user {self.pk}"
