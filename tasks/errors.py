"""What can go wrong, by name. Which class of error means which decision is told in registry.PERMANENT."""

LONGEST_SNOOZE_S = 366 * 86_400


class EnqueueError(ValueError):
    """Refuse to write a job; nothing was written."""


class UnknownKind(EnqueueError):
    """No handler is registered under this kind."""


class InvalidArguments(EnqueueError):
    """The arguments are not JSON, too large, or not what the handler takes."""


class PermanentError(Exception):
    """Raise from a handler when trying again cannot help: the job becomes a dead letter at once."""


class RetryLater(Exception):
    """Raise from a handler to come back later without spending an attempt (a snooze).

    Units: seconds from now, at least one; a kind's max_age_s bounds how long a job may go on so.
    Raises: ValueError for what is no such number, e.g. a Retry-After that was taken for a number of seconds.
    """

    def __init__(self, seconds: float, reason: str = ""):
        if not 0 <= seconds <= LONGEST_SNOOZE_S:
            raise ValueError(f"RetryLater takes 0 to {LONGEST_SNOOZE_S} seconds from now, not {seconds!r}.")
        super().__init__(reason or f"asked to come back in {seconds:g} s")
        self.seconds = seconds


class Unfit(Exception):
    """A stored job does not fit this code: its kind, payload version or arguments. Other code may know it."""


class Superseded(Exception):
    """Roll back an atomic job whose row is no longer ours to finish."""


class TransitionRefused(Exception):
    """Say in words why a person's decision about a job was not carried out."""
