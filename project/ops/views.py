"""Is this process up, and which code does it run?"""

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe


@require_safe
@never_cache
def healthz(request: HttpRequest) -> HttpResponse:
    """Answer without the database: a web process is up also while the database is away, and says so elsewhere."""
    return HttpResponse("ok\n", content_type="text/plain", headers={"X-Release": settings.RELEASE})
