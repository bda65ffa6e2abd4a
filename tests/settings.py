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
from project.settings import CELERY_BROKER_TRANSPORT_OPTIONS, DATA_DIR, DATABASES, INSTALLED_APPS, PASSWORD_HASHERS

INSTALLED_APPS = [*INSTALLED_APPS, "tests.testjobs"]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher", *PASSWORD_HASHERS]  # argon2 would time itself
if DATABASES["default"]["ENGINE"].endswith("sqlite3"):
    # A file, as on a site: threads and other processes must see the same database.
    DATABASES["default"]["TEST"] = {"NAME": str(DATA_DIR / "test.sqlite3")}
if "TESTS_VISIBILITY_TIMEOUT_S" in os.environ:  # Redis hands out again what is not acknowledged by then
    CELERY_BROKER_TRANSPORT_OPTIONS |= {"visibility_timeout": int(os.environ["TESTS_VISIBILITY_TIMEOUT_S"])}
    CELERY_BROKER_TRANSPORT_OPTIONS |= {"unacked_restore_interval": 1, "unacked_restore_throttle": 1}
    SILENCED_SYSTEM_CHECKS = ["jobs.E003"]  # which refuses such a timeout
