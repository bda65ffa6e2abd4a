"""While the database is away the site says so, instead of failing in a way that looks like a bug."""

import logging

from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template.loader import render_to_string

log = logging.getLogger(__name__)

RETRY_AFTER_S = 10
SENTENCE = "We cannot take this right now, and nothing was lost or half done. Please try again in a moment."


class DatabaseAwayMiddleware:
    """Answer 503 with a sentence, for people and for programs."""

    def __init__(self, get_response):
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Pass the request on."""
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        """Turn a database that is away into an answer; every other error goes its way."""
        if not isinstance(error, (OperationalError, InterfaceError)):
            return None
        log.warning("the database is away (%s): answered 503", type(error).__name__)
        if request.content_type == "application/json":
            response = JsonResponse({"errors": {"service": [SENTENCE]}}, status=503)
        else:
            response = HttpResponse(render_to_string("503.html", {"sentence": SENTENCE}), status=503)
        response["Retry-After"] = str(RETRY_AFTER_S)
        return response
