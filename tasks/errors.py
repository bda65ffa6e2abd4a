"""What can go wrong, by name. Which class of error means which decision is told in registry.PERMANENT."""


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

    Units: seconds from now.
    """

    def __init__(self, seconds: float, reason: str = ""):
        super().__init__(reason or f"asked to come back in {seconds:g} s")
        self.seconds = seconds


class Unfit(Exception):
    """A stored job does not fit this code: its kind, payload version or arguments. Other code may know it."""


class Superseded(Exception):
    """Roll back an atomic job whose row is no longer ours to finish."""


class TransitionRefused(Exception):
    """Say in words why a person's decision about a job was not carried out."""
