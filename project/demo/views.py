"""Show the mails that the demo wrote to files instead of sending them."""

import email
import heapq
import re
from email.message import EmailMessage
from email.policy import default
from pathlib import Path

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

SHOWN = 50  # mails in the list
BETWEEN = b"\n" + b"-" * 79 + b"\n"  # Source: django.core.mail.backends.console, write_message
FILE_NAME = re.compile(r"\d{8}-\d{6}-\d+\.log")


@never_cache
@require_safe
def mail(request: HttpRequest) -> HttpResponse:
    """List the newest mails."""
    context = {"mails": newest_mails(Path(settings.EMAIL_FILE_PATH)), "smtp_host": settings.EMAIL_HOST}
    return render(request, "demo/mail.html", context)


@never_cache
@require_safe
def letter(request: HttpRequest, name: str, index: str) -> HttpResponse:
    """Show one mail as text; its links work, anything else in it is escaped."""
    path = Path(settings.EMAIL_FILE_PATH) / name
    messages = read_messages(path) if path.is_file() else []
    if int(index) >= len(messages):
        raise Http404("There is no such mail.")
    found = messages[int(index)]
    body = found.get_body(("plain",))
    context = {"headers": headers(found), "body": body.get_content() if body else "This mail has no text."}
    return render(request, "demo/letter.html", context)


def newest_mails(folder: Path) -> list[dict]:
    """Return the newest mails, newest first.

    Shape: headers, and name and index, which together are a mail's address.
    """
    files = (path for path in folder.glob("*.log") if FILE_NAME.fullmatch(path.name))
    newest = heapq.nlargest(SHOWN, files, key=lambda path: (path.stat().st_mtime_ns, path.name))
    found = []
    for path in newest:
        messages = list(enumerate(read_messages(path)))
        found += [headers(message) | {"name": path.name, "index": index} for index, message in reversed(messages)]
    return found[:SHOWN]


def read_messages(path: Path) -> list[EmailMessage]:
    """Return the mails of a file; the backend appends one after the other."""
    texts = path.read_bytes().split(BETWEEN)
    return [email.message_from_bytes(text, policy=default) for text in texts if text.strip()]


def headers(message: EmailMessage) -> dict[str, str]:
    """Return the headers that people look at."""
    return {name: str(message.get(name, "")) for name in ("from", "to", "subject", "date")}
