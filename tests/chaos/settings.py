"""The tests' settings, the run's own kinds and its file of marks."""

from tests.settings import *  # noqa: F403
from tests.settings import DATA_DIR, INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "tests.chaos"]
CHAOS_MARKS = DATA_DIR / "marks.jsonl"
