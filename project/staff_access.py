"""The door to Flower: nginx asks here, for each request, whether its sender may see it (auth_request)."""

from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

METHOD_HEADER = "X-Original-Method"  # nginx overwrites it: its question is always a GET
READING = ("GET", "HEAD")
COMMAND_PERMISSION = "tasks.change_job"


@never_cache
@require_safe
def staff_access(request: HttpRequest) -> HttpResponse:
    """Answer 204 to active staff, 401 to anybody else, 403 to staff who ask for what they may not.

    Flower's own POSTs have no CSRF protection, and they stop workers. So anything but reading needs the right to
    change jobs, and must come from a page of this site.
    """
    if not (request.user.is_active and request.user.is_staff):
        return HttpResponse(status=401)
    if request.headers.get(METHOD_HEADER, "GET") in READING:
        return HttpResponse(status=204)
    may_command = is_from_this_site(request) and request.user.has_perm(COMMAND_PERMISSION)
    return HttpResponse(status=204 if may_command else 403)


def is_from_this_site(request: HttpRequest) -> bool:
    """Tell whether a page of this site sent the request; browsers say so, and pages cannot change what they say."""
    sender = urlsplit(request.headers.get("Origin") or request.headers.get("Referer", ""))
    return f"{sender.scheme}://{sender.netloc}".lower() == settings.SITE_URL.lower()
