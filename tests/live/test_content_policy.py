"""The policy in a real browser: the pages work with it, and it holds back what they do not need."""

import pytest
from django.contrib.auth import get_user_model
from django_celery_beat.models import CrontabSchedule, PeriodicTask
from selenium.webdriver.common.by import By

from tasks.enqueue import enqueue
from tasks.models import Job
from tests.browser import chromium, keep_screenshot
from tests.kit import wait_until

pytestmark = pytest.mark.rung("sqlite+filesystem")
PASSWORD = "a long and good one"


@pytest.fixture
def browser(tmp_path):
    """Give a browser that has never been anywhere."""
    with chromium(tmp_path / "profile") as driver:
        yield driver


@pytest.fixture
def site(transactional_db, live_server):
    """Give the address of a site with a superuser, a job and a schedule."""
    get_user_model().objects.create_superuser(email="boss@example.com", password=PASSWORD)
    enqueue("test.echo", value=1)
    PeriodicTask.objects.create(name="Hourly", task="test.echo", crontab=CrontabSchedule.objects.create(minute="0"))
    return live_server.url


def violations(browser) -> list[str]:
    """Return what the browser has refused since the last look."""
    return [line["message"] for line in browser.get_log("browser") if "Content Security Policy" in line["message"]]


def sign_in(browser, site: str) -> None:
    """Sign in to the admin."""
    browser.get(f"{site}/admin/")
    browser.find_element(By.NAME, "username").send_keys("boss@example.com")
    browser.find_element(By.NAME, "password").send_keys(PASSWORD)
    browser.find_element(By.CSS_SELECTOR, "[type=submit]").click()
    wait_until(lambda: browser.find_elements(By.ID, "user-tools"), 20, "signed in")


def test_no_page_is_held_back_by_the_policy(browser, site):
    sign_in(browser, site)
    schedule = PeriodicTask.objects.get(name="Hourly")
    pages = [
        "/",
        "/nowhere",
        "/admin/",
        "/admin/tasks/job/",
        f"/admin/tasks/job/{Job.objects.get().id}/change/",
        "/admin/django_celery_beat/periodictask/",
        "/admin/django_celery_beat/periodictask/add/",
        f"/admin/django_celery_beat/periodictask/{schedule.id}/change/",
        "/admin/django_celery_beat/crontabschedule/add/",
        "/admin/accounts/user/",
        "/admin/accounts/user/add/",
        "/demo/mail/",
    ]

    refused = {}
    for page in pages:
        browser.get(f"{site}{page}")
        if found := violations(browser):
            refused[page] = found

    assert refused == {}


def test_scripts_of_the_schedule_form_run(browser, site):
    sign_in(browser, site)

    browser.get(f"{site}/admin/django_celery_beat/periodictask/add/")
    keep_screenshot(browser, "8-schedule-form")

    assert browser.find_elements(By.CSS_SELECTOR, ".datetimeshortcuts a")  # drawn by the admin's script


def test_signup_page_follows_its_jobs(browser, site):
    browser.get(site)
    for name, value in (("name", "Ada Example"), ("email", "ada@example.com"), ("password", PASSWORD)):
        browser.find_element(By.NAME, name).send_keys(value)
    browser.find_element(By.CSS_SELECTOR, "form [type=submit]").click()
    wait_until(lambda: browser.find_elements(By.ID, "jobs"), 20, "the request's page")
    asked = "return performance.getEntriesByType('resource').filter(e => e.name.endsWith('/status')).length"

    wait_until(lambda: browser.execute_script(asked), 10, "the page asks for its status")

    assert violations(browser) == []


def test_browser_refuses_an_inline_script(browser, site):
    browser.get(site)
    violations(browser)
    smuggle = (
        "const s = document.createElement('script'); s.textContent = 'window.smuggled = 1'; document.body.append(s)"
    )

    browser.execute_script(smuggle)

    assert violations(browser)
    assert browser.execute_script("return window.smuggled") is None
