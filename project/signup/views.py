"""HTTP in, redirect out. No view waits for a job."""

from collections.abc import Callable
from functools import wraps

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt, csrf_protect

from project.signup import services
from project.signup.forms import Malformed, SignupForm, read_json

MAX_BODY_BYTES = 10 * 1024
AGAIN = "Please sign up again with the same address, and we send you a new link."
CONFIRMATIONS = {
    "confirmed": (200, "Your address is confirmed", "Thank you."),
    "confirmed before": (200, "Your address is confirmed", "It was confirmed before. There is nothing more to do."),
    "expired": (410, "This link is too old", f"A link works for three days. {AGAIN}"),
    "forged": (
        400,
        "This link does not work",
        f"A part of it may be missing. Open it from the mail once more. {AGAIN}",
    ),
    "moved": (410, "This link is for another address", f"The account's address was changed after the mail. {AGAIN}"),
    "gone": (410, "This account is gone", f"It was deleted after the mail was sent. {AGAIN}"),
}


class SeeOther(HttpResponseRedirect):
    """Send a browser from its POST to a page it may reload."""

    status_code = 303


def say(request: HttpRequest, status: int, title: str, text: str) -> HttpResponse:
    """Return a page that says one thing."""
    return render(request, "signup/message.html", {"title": title, "text": text}, status=status)


def allows(*methods: str) -> Callable:
    """Answer other methods with 405 and say which ones there are; then check the CSRF token.

    In this order: the middleware would tell a DELETE that its form has expired.
    """

    def decorate(view: Callable) -> Callable:
        protected = csrf_protect(view)

        @csrf_exempt
        @wraps(view)
        def checked(request: HttpRequest, *args, **kwargs) -> HttpResponse:
            if request.method in methods:
                return protected(request, *args, **kwargs)
            text = f"{request.method} is not possible here. Use {' or '.join(methods)}."
            response = say(request, 405, "That does not work here", text)
            response["Allow"] = ", ".join(methods)
            return response

        return checked

    return decorate


@allows("GET", "HEAD", "POST")
def home(request: HttpRequest) -> HttpResponse:
    """Show the form, or take it."""
    form = SignupForm(request.POST if request.method == "POST" else None)
    if form.is_valid():
        return SeeOther(reverse("signup:page", args=[services.sign_up(**form.cleaned_data).token]))
    return render(request, "signup/form.html", {"form": form}, status=422 if form.is_bound else 200)


@never_cache
@allows("GET", "HEAD")
def page(request: HttpRequest, token: str) -> HttpResponse:
    """Show how the jobs of a request are doing."""
    return render(request, "signup/page.html", {"token": token} | known_status(token))


@never_cache
@allows("GET", "HEAD")
def status(request: HttpRequest, token: str) -> HttpResponse:
    """Tell the same as the page, for its script and for programs."""
    return JsonResponse(known_status(token))


def known_status(token: str) -> dict:
    """Return the status of a request.

    Raises: Http404.
    """
    found = services.status_of(token)
    if found is None:
        raise Http404("No signup request has this token.")
    return found


@never_cache
@allows("GET", "HEAD")
def confirm(request: HttpRequest, signed: str) -> HttpResponse:
    """Confirm an address by the link in the mail; twice is harmless."""
    if request.method == "HEAD":  # mail programs look at links that nobody has followed; nothing is confirmed or told
        return HttpResponse()
    return say(request, *CONFIRMATIONS[services.confirm(signed, timezone.now())])


@csrf_exempt  # no cookie is looked at, so there is nothing that another site could ride on
@never_cache
def api_signup(request: HttpRequest) -> HttpResponse:
    """Do what the form does, for programs."""
    if request.method != "POST":
        return refused(405, "method", f"{request.method} is not possible here. Use POST.", Allow="POST")
    if request.content_type != "application/json":
        return refused(
            415, "content_type", "Send the fields as Content-Type: application/json.", Accept="application/json"
        )
    body = request.read(MAX_BODY_BYTES + 1)
    if len(body) > MAX_BODY_BYTES:
        return refused(413, "body", f"The body has over {MAX_BODY_BYTES} bytes. Send name, email and password only.")
    try:
        form = SignupForm(read_json(body))
    except Malformed as error:
        return refused(400, "body", str(error))
    if not form.is_valid():
        return JsonResponse({"errors": form.errors}, status=422)
    token = services.sign_up(**form.cleaned_data).token
    urls = {
        f"{name}_url": request.build_absolute_uri(reverse(f"signup:{name}", args=[token]))
        for name in ("status", "page")
    }
    return JsonResponse(urls, status=202)


def refused(status_code: int, what: str, sentence: str, **headers: str) -> JsonResponse:
    """Return an error for programs, in the shape of a form's errors."""
    return JsonResponse({"errors": {what: [sentence]}}, status=status_code, headers=headers)
