"""What a page may load, said by the Content-Security-Policy header: only what this site serves itself.

No page needs a nonce, since none has an inline script or style: not the signup pages, not Django's admin, and not the
schedules' form, which leaves out django-celery-beat's template. Flower has a policy of its own (deploy/nginx).
"""

from django.conf import settings
from django.core.exceptions import MiddlewareNotUsed
from django.http import HttpRequest, HttpResponse

HEADER = "Content-Security-Policy"
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",  # data: the icons in the admin's style sheets
        "connect-src 'self'",  # the signup page asks for its status
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    )
)


class ContentPolicyMiddleware:
    """Send the policy with every answer; one that has a policy of its own keeps it."""

    def __init__(self, get_response):
        if settings.DEBUG:  # Django's page about an error is all inline
            raise MiddlewareNotUsed
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Add the header."""
        response = self.get_response(request)
        response.headers.setdefault(HEADER, POLICY)
        return response
