"""The first run: a newcomer's `make demo` in a fresh clone with an empty cache, seen through a real browser."""

import socket
import subprocess
import time
import urllib.error
import urllib.request
from base64 import b64encode
from urllib.parse import urljoin

import pytest
from selenium.webdriver.common.by import By

from tests.browser import chromium, keep_screenshot
from tests.checkout import Checkout
from tests.kit import ROOT, Process, wait_until
from tests.services import HOST, Redis, need

pytestmark = [pytest.mark.rung("sqlite+filesystem"), pytest.mark.timeout(420)]
JOB = '#jobs [data-kind="signup.confirmation_email"]'


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """Give a fresh copy of the kit; the first demo in it installs everything."""
    return Checkout(tmp_path_factory.mktemp("newcomer"))


@pytest.fixture
def demo(checkout):
    """Give a running demo."""
    started = checkout.demo()
    yield started
    started.stop()


@pytest.fixture
def browser(tmp_path):
    """Give a browser that has never been anywhere."""
    with chromium(tmp_path / "profile") as driver:
        yield driver


def sign_up(browser, site: str) -> float:
    """Fill in the form and wait for the job on the page; return the seconds from the click to `succeeded`."""
    browser.get(site)
    for name, value in (("name", "Ada Example"), ("email", "ada@example.com"), ("password", "a long and good one")):
        browser.find_element(By.NAME, name).send_keys(value)
    keep_screenshot(browser, "1-form")
    clicked_at = time.monotonic()
    browser.find_element(By.CSS_SELECTOR, "form [type=submit]").click()
    wait_until(lambda: browser.find_elements(By.CSS_SELECTOR, f'{JOB}[data-state="succeeded"]'), 20, "job succeeds")
    return time.monotonic() - clicked_at


def test_newcomer_signs_up_and_confirms_the_address(demo, browser, capsys):
    site = demo.checkout.site

    seconds = sign_up(browser, site)
    keep_screenshot(browser, "2-status")
    browser.get(urljoin(site, "/demo/mail/"))
    keep_screenshot(browser, "3-mails")
    browser.find_element(By.CSS_SELECTOR, "table a").click()
    keep_screenshot(browser, "4-mail")
    browser.find_element(By.CSS_SELECTOR, 'a[href*="/confirm/"]').click()
    keep_screenshot(browser, "5-confirmed")

    assert "confirmed" in browser.find_element(By.TAG_NAME, "main").text.lower()
    assert browser.current_url.startswith(site)
    with capsys.disabled():
        print(f"\nfrom the click on Sign up to `succeeded` on the page: {seconds:.1f} s")


def test_printed_staff_login_opens_the_admin(demo, browser):
    email, password = demo.login

    browser.get(urljoin(demo.checkout.site, "/admin/tasks/job/"))
    browser.find_element(By.NAME, "username").send_keys(email)
    browser.find_element(By.NAME, "password").send_keys(password)
    browser.find_element(By.CSS_SELECTOR, "[type=submit]").click()
    keep_screenshot(browser, "6-admin-jobs")

    assert browser.find_elements(By.CSS_SELECTOR, "#changelist"), browser.page_source


def answer(url: str, login: tuple[str, str] | None = None) -> int:
    """Return the status code that an address answers with."""
    headers = {"Authorization": "Basic " + b64encode(":".join(login).encode()).decode()} if login else {}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=10) as response:
            return response.status
    except urllib.error.HTTPError as error:
        return error.code


def listens(port: int) -> bool:
    """Tell whether something takes connections there."""
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0


def test_flower_opens_with_the_staff_login_only(demo):
    flower = demo.checkout.flower
    wait_until(lambda: listens(demo.checkout.flower_port), 60, "Flower listens")

    assert answer(flower) == 401
    assert answer(flower, (demo.login[0], "wrong")) == 401
    assert answer(flower, demo.login) == 200


def test_staff_password_is_on_no_command_line(demo):
    commands = " ".join(demo.left_over())

    assert "flower" in commands
    assert demo.login[1] not in commands


def test_what_the_demo_installs_suffices_for_redis(demo, tmp_path):
    """What only the tests bring along would hide a missing requirement: kombu's Redis transport has one of its own."""
    need(Redis.program, Redis.package)
    redis, started = Redis(tmp_path).start(), []
    env = demo.checkout.env | {"CELERY_BROKER_URL": redis.url, "DATA_DIR": str(tmp_path / "data")}

    def run(*arguments: str) -> Process:
        python, log = str(demo.checkout.folder / ".venv" / "bin" / "python"), tmp_path / f"{len(started)}.log"
        started.append(Process(arguments[-1], [python, *arguments], env, log, cwd=demo.checkout.folder))
        return started[-1]

    try:
        assert run("manage.py", "migrate").wait(60) == 0
        assert run("manage.py", "shell", "-c", "from tasks.api import enqueue; enqueue('jobs.prune')").wait(60) == 0
        run("manage.py", "relay")
        worker = run("-m", "celery", "-A", "project", "worker", "--loglevel=INFO")
        worker.wait_for_line("jobs.prune succeeded", timeout=60)
    finally:
        for process in started:
            process.stop()
        redis.stop()


def test_ctrl_c_ends_every_process(checkout):
    demo = checkout.demo()

    demo.press_ctrl_c()

    assert demo.left_over() == []
    assert "everything has stopped" in demo.process.output


def test_second_demo_keeps_login_and_data(checkout, browser):
    first = checkout.demo()
    login = first.login
    sign_up(browser, checkout.site)
    status_page = browser.current_url
    first.press_ctrl_c()

    second = checkout.demo()

    assert second.login == login
    browser.get(status_page)
    assert browser.find_elements(By.CSS_SELECTOR, f'{JOB}[data-state="succeeded"]')
    second.stop()


def test_port_in_use_is_one_sentence(demo):
    again = demo.checkout.make("demo", f"PORT={demo.checkout.port}", f"FLOWER_PORT={demo.checkout.flower_port}")

    assert again.wait() != 0

    refusal = (
        f"Port {demo.checkout.port} is in use: stop what listens there, or choose another one, e.g. make demo PORT="
    )
    assert first_line(again).startswith(f"CommandError: {refusal}")
    assert "Traceback" not in again.output


def test_unwritable_data_folder_is_one_sentence(checkout):
    refused = checkout.make("demo", "DATA_DIR=/proc/kit")

    assert refused.wait() != 0

    assert first_line(refused).startswith("/proc/kit cannot be written")
    assert first_line(refused).endswith("set DATA_DIR to a folder of your own.")
    assert "Traceback" not in refused.output


def test_too_old_python_is_one_sentence(checkout):
    old = checkout.base / "python3.9"  # a Python that says it is older than it is
    code = (
        "import runpy, sys; sys.version_info = (3, 9, 2); sys.argv = sys.argv[1:]; "
        "runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    old.write_text(f'#!/bin/sh\nexec python3 -c "{code}" "$@"\n')
    old.chmod(0o755)

    refused = checkout.make("demo", f"PYTHON={old}")

    assert refused.wait() != 0
    assert first_line(refused).startswith("Python 3.9.2 is too old: install 3.11 or newer")
    assert "Traceback" not in refused.output


@pytest.mark.parametrize("target", ["demo", "test", "bench", "lint", "lock"])
def test_target_sets_up_before_it_uses_what_a_fresh_clone_lacks(target):
    commands = subprocess.run(["make", "-n", target], cwd=ROOT, check=True, capture_output=True, text=True).stdout

    set_up, use = commands.index("deploy/prepare.py"), commands.index(".venv/bin/")
    assert set_up < use


def first_line(process) -> str:
    """Return the first line of output."""
    return process.output.splitlines()[0]
