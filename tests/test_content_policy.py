"""Every answer says what its page may load."""

import pytest
from django.http import HttpResponse

from project.content_policy import HEADER, POLICY, ContentPolicyMiddleware


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/", "/admin/login/", "/nowhere", "/staff-access/", "/static/signup/signup.css"])
def test_every_answer_has_the_policy(client, path):
    assert client.get(path)[HEADER] == POLICY


def test_policy_allows_nothing_inline_and_nothing_foreign():
    assert "unsafe" not in POLICY
    assert "http" not in POLICY
    assert {"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'"} <= set(
        POLICY.split("; ")
    )


def test_page_with_a_policy_of_its_own_keeps_it(rf):
    middleware = ContentPolicyMiddleware(lambda request: HttpResponse(headers={HEADER: "default-src 'self'"}))

    assert middleware(rf.get("/"))[HEADER] == "default-src 'self'"
