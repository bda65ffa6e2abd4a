"""nginx with the kit's configuration before the site: what it lets through, to whom, and what it says otherwise."""

import http.server
import threading

import pytest
from django.conf import settings as django_settings
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.test import Client

from tests.nginx import DOMAIN, Nginx

pytestmark = pytest.mark.rung("sqlite+filesystem")


class Echo(http.server.BaseHTTPRequestHandler):
    """Stand where Flower stands, and answer with what was asked."""

    def answer(self):
        """Tell the request back."""
        body = f"{self.command} {self.path}\n{self.headers}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = answer

    def log_message(self, *arguments):
        """Say nothing."""


@pytest.fixture
def flower():
    """Give the port of a server in Flower's place."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


@pytest.fixture
def proxy(transactional_db, live_server, flower, settings, tmp_path):
    """Give nginx before this site."""
    settings.ALLOWED_HOSTS = [*settings.ALLOWED_HOSTS, DOMAIN]
    settings.SITE_URL = f"https://{DOMAIN}"
    app = live_server.url.removeprefix("http://")
    with Nginx(tmp_path / "nginx", app=app, kit_flower_port=flower, proxy_requests_per_second=1000) as started:
        yield started


def cookie_of(*permissions: str, **fields) -> str:
    """Return the session's cookie of a new user."""
    user = get_user_model().objects.create_user(email="who@example.com", password="x" * 12, **fields)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client = Client()
    client.force_login(user)
    return f"sessionid={client.cookies[django_settings.SESSION_COOKIE_NAME].value}; _xsrf=of-flower"


def status(answer) -> int:
    """Return the status of an answer with its headers."""
    return int(answer.stdout.split()[1])


@pytest.mark.parametrize("has_flower", [True, False])
def test_configuration_holds(tmp_path, has_flower):
    found = Nginx(tmp_path / "nginx", proxy_flower=has_flower).test()

    assert found.returncode == 0, found.stderr


def test_stranger_is_sent_to_the_login_by_flower(proxy):
    for path in ("/flower/", "/flower/api/workers", "/flower/metrics"):
        answer = proxy.curl(path)

        assert status(answer) == 302
        assert f"location: https://{DOMAIN}/admin/login/?next={path}" in answer.stdout


def test_user_who_is_no_staff_does_not_reach_flower(proxy):
    answer = proxy.curl("/flower/", "-H", f"Cookie: {cookie_of()}")

    assert status(answer) == 302


def test_staff_reaches_flower_and_the_session_does_not(proxy):
    answer = proxy.curl("/flower/workers?x=1", "-H", f"Cookie: {cookie_of(is_staff=True)}")

    assert status(answer) == 200
    assert "GET /flower/workers?x=1" in answer.stdout
    assert "sessionid" not in answer.stdout
    assert "Cookie: _xsrf=of-flower" in answer.stdout
    assert "cache-control: no-store" in answer.stdout


def test_command_reaches_flower_from_this_site_only(proxy):
    cookie = ("-H", f"Cookie: {cookie_of('change_job', is_staff=True)}", "-X", "POST")

    foreign = proxy.curl("/flower/api/worker/shutdown/w", *cookie, "-H", "Origin: https://evil.example")
    unsaid = proxy.curl("/flower/api/worker/shutdown/w", *cookie, "-H", "X-Original-Method: GET")
    own = proxy.curl("/flower/api/worker/shutdown/w", *cookie, "-H", f"Origin: https://{DOMAIN}")

    assert [status(foreign), status(unsaid), status(own)] == [403, 403, 200]


def test_inner_addresses_are_not_there_for_strangers(proxy):
    for path in ("/healthz", "/readyz", "/staff-access/", "/-/away.html"):
        assert status(proxy.curl(path)) == 404


def test_seventh_signup_in_a_row_has_to_wait_and_reading_has_not(proxy):
    sent = [status(proxy.curl("/", "-d", "name=x")) for _ in range(7)]
    read = [status(proxy.curl("/")) for _ in range(7)]

    assert sent[:6] == [403] * 6  # the form's token is missing: the site answered
    assert sent[6] == 429
    assert read == [200] * 7


def test_too_many_signups_are_told_so_in_words(proxy):
    for _ in range(7):
        answer = proxy.curl("/api/signup", "-H", "Content-Type: application/json", "-d", "{}")

    assert status(answer) == 429
    assert "retry-after: 60" in answer.stdout
    assert "wait a minute" in answer.stdout


def test_large_body_is_refused(proxy, tmp_path):
    (tmp_path / "body").write_bytes(b"x" * 17_000)

    assert status(proxy.curl("/api/signup", "-H", "Expect:", "--data-binary", f"@{tmp_path}/body")) == 413


@pytest.mark.parametrize("arguments", [(), ("-d", "name=x")])
def test_closed_site_says_so(proxy, arguments):
    (proxy.folder / "srv" / "maintenance").touch()

    for path in ("/", "/flower/", "/static/x.css"):
        answer = proxy.curl(path, *arguments)

        assert status(answer) == 503
        assert "retry-after: 120" in answer.stdout
        assert "Back in a few minutes" in answer.stdout


def test_site_that_is_away_is_told_in_words(tmp_path):
    with Nginx(tmp_path / "nginx") as proxy:
        for path in ("/", "/flower/"):
            answer = proxy.curl(path, "-d", "name=x")

            assert status(answer) == 503
            assert "retry-after: 10" in answer.stdout
            assert "Not right now" in answer.stdout


def test_static_file_with_a_hash_is_kept_for_good(proxy):
    for name in ("a.0123456789ab.css", "b.css"):
        (proxy.folder / "srv" / "static" / name).write_text("p {}")

    assert "cache-control: public, max-age=31536000, immutable" in proxy.curl("/static/a.0123456789ab.css").stdout
    assert "cache-control: no-cache" in proxy.curl("/static/b.css").stdout
    assert status(proxy.curl("/static/signup/signup.css")) == 200  # not collected: the app has it


def test_unknown_name_gets_no_certificate(proxy):
    assert proxy.curl("/", name="other.example").returncode == 35


def test_old_tls_is_refused(proxy):
    assert proxy.curl("/", "--tlsv1.0", "--tls-max", "1.1").returncode == 35
    assert proxy.curl("/", "--tlsv1.2", "--tls-max", "1.2").returncode == 0


def test_browser_is_sent_to_https(proxy):
    address = f"http://{DOMAIN}:{proxy.http_port}/signup/x/?y=1"

    answer = proxy.curl("/", "--resolve", f"{DOMAIN}:{proxy.http_port}:127.0.0.1", address)

    assert "308 Permanent Redirect" in answer.stdout
    assert f"Location: https://{DOMAIN}/signup/x/?y=1" in answer.stdout
