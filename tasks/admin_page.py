"""How one job's columns are shown on its page in the admin: read only, with their help texts."""

import json
from functools import partial

from django.utils.html import format_html

from tasks import words
from tasks.models import Job
from tasks.scrub import mask

NOTHING = "-"


def pill(job: Job) -> str:
    """Return a job's state as a coloured word."""
    return format_html('<span class="job-state job-state-{}">{}</span>', job.state, job.state)


def pretty(value) -> str:
    """Return JSON for reading, what is named like a secret hidden."""
    shown = mask({"": value})[""]  # a list at the top holds secrets as well
    return format_html('<pre class="job-json">{}</pre>', json.dumps(shown, indent=2, ensure_ascii=False))


def column(name: str, render):
    """Return a read-only display of one of Job's columns, which keeps the column's label and help text."""

    def shown(job: Job) -> str:
        value = getattr(job, name)
        return NOTHING if value is None or value == "" else render(job, value)

    shown.__name__ = name
    shown.short_description = Job._meta.get_field(name).verbose_name
    return shown


as_text = partial(column, render=lambda job, value: str(value))
as_json = partial(column, render=lambda job, value: pretty(value))
as_moment = partial(column, render=lambda job, value: words.moment(value, job.read_at))

# Each tuple is one line of the page.
FIELDSETS = {
    "What": [
        (as_text("kind"), as_text("queue"), as_text("priority")),
        (column("state", lambda job, value: pill(job)), as_text("unique_key"), as_text("unique_scope")),
        (as_json("arguments"), as_text("version")),
    ],
    "Runs": [
        (as_text("run"), as_text("attempts"), as_text("max_attempts")),
        (as_text("interruptions"), as_text("relays"), column("progress", lambda job, value: f"{value} %")),
        as_json("checkpoint"),
    ],
    "Times": [
        (as_moment("enqueued_at"), as_moment("run_at"), as_moment("relayed_at")),
        (as_moment("started_at"), as_moment("finished_at"), as_moment("cancel_requested_at")),
        (as_moment("unknown_since_at"), as_moment("snoozed_since_at"), as_moment("keep_until")),
    ],
    "Worker": [(as_text("worker"), as_text("child_pid"))],
}
