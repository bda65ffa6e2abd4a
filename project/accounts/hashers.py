"""How passwords are hashed."""

from django.contrib.auth.hashers import Argon2PasswordHasher


class SmallArgon2PasswordHasher(Argon2PasswordHasher):
    """Argon2id with 19 MiB a hash: Django's 100 MiB times eight web threads would fill a small server.

    Hashes with other numbers still verify; Django makes them anew when their owner signs in.
    Source: OWASP Password Storage Cheat Sheet, Argon2id: m=19456 (19 MiB), t=2, p=1.
    """

    time_cost = 2
    memory_cost = 19_456  # KiB
    parallelism = 1
