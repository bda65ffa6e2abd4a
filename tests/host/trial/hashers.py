"""A hasher for load: on one slow core, argon2 would be all that is measured."""

from django.contrib.auth.hashers import PBKDF2PasswordHasher


class LoadHasher(PBKDF2PasswordHasher):
    """PBKDF2 with so few rounds that a signup costs what everything else costs."""

    algorithm = "pbkdf2_load"
    iterations = 1
