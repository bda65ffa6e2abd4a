"""Take personal data and secrets out of a text before it is stored or logged."""

import re

RULES = (
    # user:password@ in a URL
    (re.compile(r"(?<=://)[^/\s@]+@"), "[secret]@"),
    # an e-mail address, also with a name in another script
    (re.compile(r"[^\s<>\"'(),:;=\[\]]+@[^\s<>\"'(),:;=\[\]]+"), "[address]"),
    # password=..., 'token': '...', Authorization: Bearer ...
    (
        re.compile(
            r"(?i)((?:password|passwd|secret|token|api[-_]?key|authorization|cookie)\w*[\"']?\s*[:=]\s*)"
            r"(?:bearer\s+|basic\s+)?(\"[^\"]*\"|'[^']*'|[^\s,;)}\]]+)"
        ),
        r"\1[secret]",
    ),
)
SECRET_NAME = re.compile(r"(?i)password|passwd|secret|token|api_?key|authorization|cookie|card|iban")


def scrub(text: str, limit: int = 8_000) -> str:
    """Return the text without addresses and secrets, its tail kept when it is too long.

    Units: limit counts characters; a traceback says most at its end.
    """
    for pattern, replacement in RULES:
        text = pattern.sub(replacement, text)
    return text if len(text) <= limit else "[cut] ..." + text[-limit:]


def mask(arguments: dict) -> dict:
    """Return a copy of job arguments in which what is named like a secret is hidden, at any depth."""

    def masked(name: str, value):
        if SECRET_NAME.search(name):
            return "[hidden]"
        if isinstance(value, dict):
            return {key: masked(key, inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [masked("", inner) for inner in value]
        return value

    return {name: masked(name, value) for name, value in arguments.items()}
