"""Read settings from the environment; nonsense stops the start with a sentence that says what to do."""

import os

from django.core.exceptions import ImproperlyConfigured


def text(name: str, default: str = "") -> str:
    """Return the variable, or the default when it is unset or empty."""
    return os.environ.get(name, "").strip() or default


def integer(name: str, default: int, *, low: int, high: int) -> int:
    """Return a whole number within its bounds.

    Raises: ImproperlyConfigured.
    """
    value = text(name, str(default))
    try:
        number = int(value)
    except ValueError:
        number = None
    if number is None or not low <= number <= high:
        raise ImproperlyConfigured(f"{name} is {value!r}; set it to a whole number from {low} to {high}.")
    return number


def boolean(name: str, default: bool) -> bool:
    """Return a switch: 1, true, yes, on or 0, false, no, off.

    Raises: ImproperlyConfigured.
    """
    value = text(name, "1" if default else "0").lower()
    if value not in {"1", "true", "yes", "on", "0", "false", "no", "off"}:
        raise ImproperlyConfigured(f"{name} is {value!r}; set it to 1 or 0.")
    return value in {"1", "true", "yes", "on"}


def choice(name: str, default: str, allowed: tuple[str, ...]) -> str:
    """Return one of the allowed words.

    Raises: ImproperlyConfigured.
    """
    value = text(name, default)
    if value not in allowed:
        raise ImproperlyConfigured(f"{name} is {value!r}; set it to one of: {', '.join(allowed)}.")
    return value


def words(name: str, default: str = "") -> list[str]:
    """Return a comma-separated list."""
    return [word.strip() for word in text(name, default).split(",") if word.strip()]
