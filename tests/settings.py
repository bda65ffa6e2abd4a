"""The site's settings plus what only tests need. Servers come from the environment, as in production."""

import atexit
import os
import tempfile

# Before the import below: tests never touch the data of a demo in ./var. Child processes inherit the folder.
if "DATA_DIR" not in os.environ:
    _folder = tempfile.TemporaryDirectory(prefix="kit-tests-", ignore_cleanup_errors=True)
    atexit.register(_folder.cleanup)
    os.environ["DATA_DIR"] = _folder.name

from project.settings import *  # noqa: F403
from project.settings import DATA_DIR, DATABASES, INSTALLED_APPS, PASSWORD_HASHERS

INSTALLED_APPS = [*INSTALLED_APPS, "tests.testjobs"]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher", *PASSWORD_HASHERS]  # argon2 would time itself
if DATABASES["default"]["ENGINE"].endswith("sqlite3"):
    # A file, as on a site: threads and other processes must see the same database.
    DATABASES["default"]["TEST"] = {"NAME": str(DATA_DIR / "test.sqlite3")}
