"""Read settings from the environment; nonsense stops the start with a sentence that says what to do."""

import fcntl
import os
import re
import secrets
from pathlib import Path
from zoneinfo import ZoneInfo

from django.core.exceptions import ImproperlyConfigured


def text(name: str, default: str = "") -> str:
    """Return the variable, or what is in the file that NAME_FILE names, or the default when both are unset or empty.

    Raises: ImproperlyConfigured.
    """
    value, path = (os.environ.get(variable, "").strip() for variable in (name, f"{name}_FILE"))
    if value and path:
        raise ImproperlyConfigured(f"{name} and {name}_FILE are both set; unset one of them.")
    return (_content(f"{name}_FILE", path) if path else value) or default


def _content(name: str, path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise ImproperlyConfigured(
            f"{name} is {path!r}, which cannot be read ({reason}); set it to a file that this user may read."
        ) from None


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
    """Return a list whose words are separated by commas or stand in lines of their own."""
    return [word.strip() for word in re.split(r"[,\n]", text(name, default)) if word.strip()]


def time_zone(name: str, default: str) -> str:
    """Return the name of a time zone.

    Raises: ImproperlyConfigured.
    """
    value = text(name, default)
    try:
        ZoneInfo(value)
    except (KeyError, ValueError, OSError):  # unknown; a path or a folder
        raise ImproperlyConfigured(
            f"{name} is {value!r}; set it to a time zone such as UTC or Europe/Berlin."
        ) from None
    return value


def url(name: str, default: str, schemes: tuple[str, ...]) -> str:
    """Return an address that begins with one of the schemes; may be empty.

    Raises: ImproperlyConfigured, with no more of the address than its beginning: a password may follow.
    """
    value = text(name, default)
    scheme, mark, _ = value.partition("://")
    if value and not (mark and scheme.partition("+")[0] in schemes):
        begin, known = re.split(r"[^\w+.-]", value)[0], ", ".join(f"{scheme}://" for scheme in schemes)
        raise ImproperlyConfigured(
            f"{name} begins with {begin!r}; set it to an address that begins with one of: {known}."
        )
    return value


def origin(name: str, default: str) -> str:
    """Return a site's address without a slash at its end; may be empty.

    Raises: ImproperlyConfigured.
    """
    value = text(name, default).rstrip("/")
    if value and not re.fullmatch(r"https?://([a-z0-9.-]+|\[[0-9a-f:.]+\])(:\d{1,5})?", value, re.IGNORECASE):
        raise ImproperlyConfigured(
            f"{name} is {value!r}; set it to scheme and host only, e.g. https://kit.example.com."
        )
    return value


def make_folder(name: str, folder: Path) -> Path:
    """Return a folder that can be written, made if there is none; name is the variable that moves it.

    Raises: ImproperlyConfigured.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        reason = "" if os.access(folder, os.W_OK | os.X_OK) else "it may not be written"
    except OSError as error:
        reason = error.strerror
    if reason:
        raise ImproperlyConfigured(
            f"{name} leads to {folder}, which cannot be used ({reason}); set it to a folder of your own."
        )
    return folder


def kept_secret(file: Path, size_bytes: int = 50) -> str:
    """Return the secret in a file, made up once, the same for all processes that start together.

    Locks: the file, so that nobody reads it half written; what a crash left empty is filled by the next.
    Raises: ImproperlyConfigured.
    """
    make_folder("DATA_DIR", file.parent)
    try:
        with open(os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600), "r+") as kept:
            fcntl.flock(kept, fcntl.LOCK_EX)
            if not (secret := kept.read().strip()):
                secret = secrets.token_urlsafe(size_bytes)
                kept.write(secret)
                kept.flush()
            return secret
    except OSError as error:
        raise ImproperlyConfigured(
            f"DATA_DIR holds {file}, which cannot be used ({error.strerror}); set DATA_DIR to a folder of your own."
        ) from None
