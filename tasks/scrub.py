"""Take personal data and secrets out of a text before it is stored or logged."""

import re

SECRET = r"pass(?:word|wd|phrase)|pwd|secret|token|(?:api|access|private)[-_]?key|authorization|session[-_]?id"
SCHEMES = r"(?:bearer|basic|digest|token)\s+"
QUOTED = r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'"
# Bounded, or a long text without any @ would cost the square of its length.
LOCAL_PART = r"(?:\"[^\"\n]{1,64}\"|[^\s<>\"'(),:;=\[\]]{1,254})"
RULES = (
    # user:password@ in a URL; a password may hold a slash that nobody escaped
    (re.compile(r"(?<=://)(?:[^/\s@]{1,254}|[^\s/@:\"']{0,254}:[^\s@\"'<>]{1,254})@"), "[secret]@"),
    # Cookie: a=1; b=2 to the end of the line
    (re.compile(rf"(?i)(cookie\\*[\"']?\s*[:=]\s*)(?:{QUOTED}|[^\r\n]+)"), r"\1[secret]"),
    # an e-mail address, also with a name in another script, as a domain literal, or escaped in a URL
    (re.compile(rf"(?i){LOCAL_PART}(?:[@＠]|%40)(?:\[[^\]\s]+\]|[^\s<>\"'(),:;=\[\]&]+)"), "[address]"),
    # password=..., 'token': '...', {\"token\": \"...\"}, Authorization: Bearer ...
    (
        re.compile(
            rf"(?i)((?:{SECRET})\w{{0,64}}\\*[\"']?\s*[:=]\s*)(?:{SCHEMES})?(?:\[secret\]|{QUOTED}|[^\s,;)}}\]]+)"
        ),
        r"\1[secret]",
    ),
    # a bearer token or a JSON web token without a name before it
    (re.compile(r"(?i)(?<=\bbearer )[\w.~+/=-]{8,}"), "[secret]"),
    (re.compile(r"\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*"), "[secret]"),
)
SECRET_NAME = re.compile(rf"(?i){SECRET}|cookie|(?<![a-z])(?:card|iban)")


def scrub(text: str, limit: int = 8_000, *, is_start_kept: bool = False) -> str:
    """Return the text without addresses and secrets; when it is too long, its end is kept, or its start.

    Shape: what a database does not store (NUL, half a surrogate pair) becomes a question mark.
    Units: limit counts characters; a traceback says most at its end, an error's sentence at its start.
    """
    text = text.encode("utf-8", "replace").decode().replace("\0", "?")
    is_cut = len(text) > 2 * limit
    if is_cut and is_start_kept:
        text = text[: 2 * limit]
    elif is_cut:  # from the start of a line: a value must not be parted from the name that gives it away
        tail = text[-2 * limit :]
        text = tail.partition("\n")[2] or tail
    for pattern, replacement in RULES:
        text = pattern.sub(replacement, text)
    if not is_cut and len(text) <= limit:
        return text
    return text[:limit] + "... [cut]" if is_start_kept else "[cut] ..." + text[-limit:]


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
