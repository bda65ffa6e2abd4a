"""The demo's mailbox page shows what was written to files, and nothing else of the disk."""

from pathlib import Path

import pytest
from django.core.mail import EmailMessage, get_connection

from project.demo.views import SHOWN

pytestmark = pytest.mark.django_db


@pytest.fixture
def folder(settings, tmp_path) -> Path:
    """Make mail go to files of this test."""
    settings.EMAIL_BACKEND = "django.core.mail.backends.filebased.EmailBackend"
    settings.EMAIL_HOST = ""
    settings.EMAIL_FILE_PATH = tmp_path / "mail"
    return settings.EMAIL_FILE_PATH


def send(*subjects: str, body: str = "Hello", to: str = "ann@example.com") -> None:
    """Send mails over one connection, so into one file."""
    with get_connection() as connection:
        for subject in subjects:
            EmailMessage(subject, body, to=[to], connection=connection).send()


def test_empty_mailbox_says_so(client, folder):
    response = client.get("/demo/mail/")

    assert "No mail yet." in response.content.decode()


def test_list_shows_address_subject_and_date_newest_first(client, folder):
    send("First", "Second: Zoë 🦊")

    mails = client.get("/demo/mail/").context["mails"]

    assert [mail["subject"] for mail in mails] == ["Second: Zoë 🦊", "First"]
    assert all(mail["to"] == "ann@example.com" and mail["date"] for mail in mails)


def test_each_mail_of_a_file_has_a_page_of_its_own(client, folder):
    send("First", "Second")

    mails = client.get("/demo/mail/").context["mails"]
    pages = [client.get(f"/demo/mail/{mail['name']}/{mail['index']}/").content.decode() for mail in mails]

    assert "<h1>Second</h1>" in pages[0]
    assert "<h1>First</h1>" in pages[1]


def test_link_in_a_mail_can_be_followed_and_nothing_else_is_html(client, folder):
    send("<b>Subject</b>", body="See http://127.0.0.1:8000/confirm/7:1tXyzA:a-b_c/ <script>alert(1)</script>")
    mail = client.get("/demo/mail/").context["mails"][0]

    page = client.get(f"/demo/mail/{mail['name']}/{mail['index']}/").content.decode()

    assert 'href="http://127.0.0.1:8000/confirm/7:1tXyzA:a-b_c/"' in page
    assert "<script>alert" not in page and "<b>Subject" not in page


def test_list_is_bounded(client, folder):
    send(*(f"mail {number}" for number in range(SHOWN + 10)))

    mails = client.get("/demo/mail/").context["mails"]

    assert len(mails) == SHOWN
    assert mails[0]["subject"] == f"mail {SHOWN + 9}"


@pytest.mark.parametrize(
    "path",
    [
        "..%2f..%2fsecret.log/0/",
        "../secret.log/0/",
        "secret.log/0/",
        "20260101-000000-1.log/0/",
        "20260101-000000-1.log%00/0/",
        "20260101-000000-1.log/999999/",
    ],
)
def test_other_files_are_out_of_reach(client, folder, path):
    folder.mkdir()
    for place in (folder.parent, folder):
        (place / "secret.log").write_text("Subject: secret\n\nsecret")

    response = client.get(f"/demo/mail/{path}")

    assert response.status_code == 404


def test_foreign_file_in_the_folder_is_not_listed(client, folder):
    folder.mkdir()
    (folder / "other.log").write_text("Subject: other\n\nother")

    assert client.get("/demo/mail/").context["mails"] == []


def test_with_a_mail_server_the_page_says_where_mail_goes(client, folder, settings):
    settings.EMAIL_HOST = "smtp.example.com"

    response = client.get("/demo/mail/")

    assert "Mail goes to the server smtp.example.com" in response.content.decode()
