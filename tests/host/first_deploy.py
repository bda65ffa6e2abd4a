"""Items 1 and 2: a bare machine becomes the whole kit, and nothing changes a second time."""

import re

from tests.host.shell import crowding, wait_for
from tests.host.suite import Suite
from tests.host.visitors import Answer
from tests.smtp import Mail

FIRST_DEPLOY_S = 600
MAIL_S = 60


def bare_machine_becomes_the_kit(suite: Suite) -> None:
    """Deploy to a bare machine, let verify attack it, and sign up."""
    check = suite.site.must_make("deploy", "ARGS=--check")
    assert check.changed == 0, f"--check on a bare machine says that it changed: {check.changes()}"
    outcome = suite.site.must_make("deploy", timeout_s=1500)
    suite.found(f"deployed in {outcome.seconds:.0f} s, {outcome.changed} changes")
    suite.guest.wait_until_whole(suite.site.head())
    verify(suite)
    signup_ends_in_a_mail(suite)
    bound_s = FIRST_DEPLOY_S * crowding()
    assert outcome.seconds <= bound_s, f"The first deploy took {outcome.seconds:.0f} s; {bound_s:.0f} s is the bound."


def verify(suite: Suite) -> None:
    """Let `make verify` attack the machine."""
    outcome = suite.site.must_make("verify")
    suite.found(f"verified in {outcome.seconds:.0f} s, {outcome.text.count('TASK [')} tasks")


def signup_ends_in_a_mail(suite: Suite) -> None:
    """Sign up over HTTPS, follow the link in the mail, and get the welcome page by mail."""
    person = suite.people(1)
    answer = suite.internet.sign_up(person)
    assert answer.status == 202, f"A signup over HTTPS got {told(answer)}"
    confirmation = wait_for_mails(suite, person, 1)[0]
    link = re.search(r"https://[^/\s]+(/confirm/\S+)", text_of(confirmation))
    assert link, "The confirmation mail has no link."
    answer = suite.internet.get(link[1])
    assert answer.status == 200, f"The link in the mail got {told(answer)}"
    welcome = wait_for_mails(suite, person, 2)[1]
    parts = [part.get_content_type() for part in welcome.message.walk()]
    assert "application/pdf" in parts, f"The welcome mail has no PDF, but {', '.join(parts)}."
    suite.found("a signup over HTTPS was mailed, confirmed, and welcomed with its PDF")


def wait_for_mails(suite: Suite, person: int, count: int) -> list[Mail]:
    """Return a person's mails once there are so many."""
    mails = wait_for(
        f"Mail number {count} to person {person}",
        lambda: len(found := suite.internet.mails_to(person)) >= count and found,
        timeout_s=MAIL_S,
    )
    return mails


def text_of(mail: Mail) -> str:
    """Return a mail's plain text."""
    part = next(part for part in mail.message.walk() if part.get_content_type() == "text/plain")
    return part.get_payload(decode=True).decode()


def told(answer: Answer) -> str:
    """Return an answer for a message."""
    return f"{answer.status} after {answer.seconds:.1f} s: {answer.body[:300]}"


def second_deploy_changes_nothing(suite: Suite) -> None:
    """Deploy the same again, and then only ask what a deploy would change."""
    before = suite.guest.invocations()
    again = suite.site.must_make("deploy")
    assert again.changed == 0, f"The second deploy changed {again.changed}: {again.changes()}"
    after = suite.guest.invocations()
    restarted = sorted(unit for unit in before if after.get(unit) != before[unit])
    assert not restarted, f"The second deploy restarted {', '.join(restarted)}."
    check = suite.site.must_make("deploy", "ARGS=--check --diff")
    assert check.changed == 0, f"--check would change {check.changed}: {check.changes()}"
    suite.found(f"changed=0 in {again.seconds:.0f} s, no unit restarted; --check --diff: changed=0")
