"""What the tests of welcome pages share."""

import io
import unicodedata
from pathlib import Path

from pypdf import PdfReader

from tasks.running_job import RunningJob
from tasks.states import State
from tests.rows import row


def running(checkpoint: dict | None = None) -> RunningJob:
    """Return a run of a job, as a handler gets it."""
    return RunningJob(row(State.RUNNING, kind="signup.welcome_pdf", queue="pdf", checkpoint=checkpoint))


def text_of(pdf: bytes) -> str:
    """Return what can be read on the one page of a PDF, on one line."""
    (only,) = PdfReader(io.BytesIO(pdf)).pages
    return unicodedata.normalize("NFC", " ".join(only.extract_text().split()))


def files(media: Path) -> list[str]:
    """Return the names of all files that are kept, hidden ones too."""
    return sorted(path.name for path in media.rglob("*") if path.is_file())
