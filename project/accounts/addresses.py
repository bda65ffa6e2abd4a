"""One e-mail address, one spelling: what is stored, compared and mailed."""

import re
import unicodedata

from django.core.exceptions import ValidationError
from django.core.validators import EmailValidator

MAX_CHARACTERS = 254  # Source: RFC 5321, 4.5.3.1.3, without the angle brackets
MESSAGE = "Enter an e-mail address like name@example.com."
DOTS = re.compile("[.\u3002\uff0e\uff61]")  # Source: RFC 3490, 3.1
# Python's IDNA (2003) turns these into other letters, and the mail would go to somebody else's domain.
DEVIATIONS = re.compile("[\u00df\u03c2]")  # Source: RFC 5894, 7.2


def canonical_email(text: str) -> str:
    """Return the one spelling of an address: lower case, the domain in its ASCII form, a plus part kept.

    Raises: ValidationError in words, without the address.
    """
    if not text.isprintable():
        raise ValidationError("An e-mail address has no line breaks or other invisible characters.")
    address = unicodedata.normalize("NFKC", text.strip()).lower()
    name, at, domain = address.rpartition("@")
    if not at or not name.isascii() or '"' in name or domain.startswith("["):
        raise ValidationError(MESSAGE)
    address = f"{name}@{ascii_domain(domain)}"
    if len(address) > MAX_CHARACTERS:
        raise ValidationError(f"An e-mail address has at most {MAX_CHARACTERS} characters.")
    EmailValidator(message=MESSAGE)(address)
    return address


def ascii_domain(domain: str) -> str:
    """Return a domain as the mail system knows it.

    Raises: ValidationError.
    """
    try:
        return ".".join(_ascii_label(label) for label in DOTS.split(domain))
    except UnicodeError:
        raise ValidationError(MESSAGE) from None


def _ascii_label(label: str) -> str:
    if DEVIATIONS.search(label):
        return "xn--" + label.encode("punycode").decode()
    return label if label.isascii() else label.encode("idna").decode().lower()
