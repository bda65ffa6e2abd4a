"""What is taken out of an error before anybody stores or logs it, and what must stay readable."""

import pytest

from tasks.scrub import mask, scrub

pytestmark = pytest.mark.rung("sqlite+filesystem")  # nothing in it depends on database or broker

ADDRESSES = {
    "sent to bob@example.com": "sent to [address]",
    "sent to bob+news@mail.example.co.uk.": "sent to [address]",
    "Bob <bob@example.com>, Eve <eve@example.org>": "Bob <[address]>, Eve <[address]>",
    "to='bob@example.com' cc=\"eve@example.com\"": "to='[address]' cc=\"[address]\"",
    "email=bob@example.com": "email=[address]",
    "mailto:bob@example.com": "mailto:[address]",
    "Key (email)=(bob@example.com) already exists.": "Key (email)=([address]) already exists.",
    "zoë@bücher.example": "[address]",
    "bob@xn--bcher-kva.example": "[address]",
    "иван@пример.рф написал": "[address] написал",
    "用户@例子.公司": "[address]",
    "o'neil@example.com": "o'[address]",
    '"bob smith"@example.com': "[address]",
    "bob@[192.0.2.1]": "[address]",
    "GET /confirm?email=bob%40example.com&x=1": "GET /confirm?email=[address]&x=1",
    "bob＠example.com": "[address]",
    "{'to': ['bob@example.com', 'eve@example.com']}": "{'to': ['[address]', '[address]']}",
    "(550, b'5.1.1 <bob@example.com>: no such user')": "(550, b'5.1.1 <[address]>: no such user')",
}
SECRETS = {
    "redis://:hunter2@10.0.0.1:6379/0": "redis://[secret]@10.0.0.1:6379/0",
    "postgres://kit:hunter2@db.example.com/kit": "postgres://[secret]@db.example.com/kit",
    "https://hunter2@sentry.example.com/1": "https://[secret]@sentry.example.com/1",
    "redis://:hun/ter2@10.0.0.1:6379": "redis://[secret]@10.0.0.1:6379",
    "password=hunter2": "password=[secret]",
    "password = 'hunter 2'": "password = [secret]",
    "DB_PASSWORD: hunter2, next": "DB_PASSWORD: [secret], next",
    "passwd=hunter2;x=1": "passwd=[secret];x=1",
    'connection to "db" failed: password="hun\\"ter2" x': 'connection to "db" failed: password=[secret] x',
    '{"token": "hunter2", "id": 1}': '{"token": [secret], "id": 1}',
    "{'api_key': 'hunter2'}": "{'api_key': [secret]}",
    '{\\"token\\": \\"hunter2\\"}': '{\\"token\\": [secret]}',
    "X-Api-Key: hunter2": "X-Api-Key: [secret]",
    "AWS_SECRET_ACCESS_KEY=hunter2": "AWS_SECRET_ACCESS_KEY=[secret]",
    "Authorization: Bearer hunter2": "Authorization: [secret]",
    "Authorization: Basic aHVudGVyMg==": "Authorization: [secret]",
    "Authorization: Token hunter2": "Authorization: [secret]",
    "'Authorization': 'Bearer hunter2'": "'Authorization': [secret]",
    "refused: Bearer hunter2hunter2": "refused: Bearer [secret]",
    "bad eyJhbGciOiJIUzI1.eyJzdWIiOiIxMj.hunter2": "bad [secret]",
    "Cookie: sessionid=hunter2; other=hunter2": "Cookie: [secret]",
    "sessionid=hunter2": "sessionid=[secret]",
}
READABLE = [
    "ConnectionRefusedError: [Errno 111] Connection refused",
    '  File "/srv/kit/project/signup/emails.py", line 41, in send',
    "    @transaction.atomic",
    '@job("signup.confirmation_email", queue="mail")\ndef confirmation_email(request_id):',
    "    result = left @ right",
    "DoesNotExist: SignupRequest matching query does not exist.",
    "TypeError: send() missing 1 required argument: 'request_id'",
    "KeyError: 'token'",
    "SMTPServerDisconnected: Connection unexpectedly closed",
    "https://docs.example.com/a/b?c=1#d",
    "redis://127.0.0.1:6379/0 answered: OOM command not allowed",
    "The soft time limit of 540 s was exceeded.",
    "key=welcome:42 run=3 attempt=2",
]


@pytest.mark.parametrize(("text", "expected"), ADDRESSES.items())
def test_address_is_taken_out(text, expected):
    assert scrub(text) == expected


@pytest.mark.parametrize(("text", "expected"), SECRETS.items())
def test_secret_is_taken_out(text, expected):
    assert scrub(text) == expected


@pytest.mark.parametrize("text", READABLE)
def test_ordinary_text_stays_as_it_is(text):
    assert scrub(text) == text


@pytest.mark.parametrize("text", [*ADDRESSES, *SECRETS])
def test_scrubbing_twice_changes_nothing_more(text):
    once = scrub(text)

    assert scrub(once) == once


def test_long_text_keeps_its_end():
    text = "first line\n" + "x y\n" * 5_000 + "ValueError: the reason"

    scrubbed = scrub(text, limit=100)

    assert scrubbed.startswith("[cut] ...")
    assert scrubbed.endswith("ValueError: the reason")
    assert len(scrubbed) == 100 + len("[cut] ...")


def test_long_sentence_can_keep_its_start():
    text = "ValueError: the reason, for bob@example.com " + "x y " * 5_000

    scrubbed = scrub(text, limit=100, is_start_kept=True)

    assert scrubbed.startswith("ValueError: the reason, for [address]")
    assert scrubbed.endswith("... [cut]")


@pytest.mark.parametrize("length", range(150, 260, 7))
def test_cut_never_parts_a_secret_from_its_name(length):
    text = "password=" + "hunter2" * 20 + "\n" + "x" * length

    scrubbed = scrub(text, limit=100)

    assert "hunter2" not in scrubbed


@pytest.mark.timeout(5)
@pytest.mark.parametrize("unit", ["a", "password", "://", 'a"', "eyJ", "a:b=", "\\"])
def test_huge_text_without_spaces_takes_no_time(unit):
    assert len(scrub(unit * 1_000_000)) <= 9_000


MASKED = [
    ({"request_id": 1}, {"request_id": 1}),
    ({"api_token": "x"}, {"api_token": "[hidden]"}),
    (
        {"Password": "x", "apiKey": "x", "session_id": "x"},
        dict.fromkeys(["Password", "apiKey", "session_id"], "[hidden]"),
    ),
    ({"card": "4111", "iban": "DE00", "discard": True}, {"card": "[hidden]", "iban": "[hidden]", "discard": True}),
    ({"user": {"secret": {"deep": 1}}}, {"user": {"secret": "[hidden]"}}),
    (
        {"hooks": [{"url": "u", "token": "x"}, [{"cookie": 1}]]},
        {"hooks": [{"url": "u", "token": "[hidden]"}, [{"cookie": "[hidden]"}]]},
    ),
]


@pytest.mark.parametrize(("arguments", "shown"), MASKED)
def test_argument_named_like_a_secret_is_hidden(arguments, shown):
    assert mask(arguments) == shown


def test_masking_leaves_the_arguments_themselves_alone():
    arguments = {"user": {"token": "x"}}

    mask(arguments)

    assert arguments == {"user": {"token": "x"}}
