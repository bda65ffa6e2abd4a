"""Which kinds of job exist here, and whether a stored job fits the code that would run it."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field

from django.core.exceptions import ObjectDoesNotExist, SuspiciousOperation, ValidationError

from tasks import backoff
from tasks.errors import EnqueueError, InvalidArguments, PermanentError, Unfit, UnknownKind

# The one place that sorts failures: these bury a job at once, anything else is tried again.
PERMANENT = (PermanentError, ObjectDoesNotExist, ValidationError, SuspiciousOperation)

BROKER_PREFIX = "q."  # one ACL pattern covers every queue; source: docs/decisions/0003
RESERVED = frozenset({"unique_key", "unique_scope", "run_at", "priority", "keep_until"})


@dataclass(frozen=True, kw_only=True)
class Kind:
    """What the kit knows of one task: its handler and the limits of its jobs.

    Units: durations in seconds; priority 0 to 9, 9 is the most urgent.
    """

    name: str
    handler: Callable
    queue: str = "default"
    priority: int = 5
    max_attempts: int = 5
    atomic: bool = False
    bind: bool = False
    version: int = 1
    upgrade: Callable[[dict, int], dict] | None = None
    backoff_base_s: float = backoff.BASE_S
    backoff_cap_s: float = backoff.CAP_S
    max_age_s: float = 86_400.0
    soft_time_limit_s: float | None = None
    time_limit_s: float | None = None
    permanent: tuple[type[Exception], ...] = ()
    signature: inspect.Signature = field(init=False)

    def __post_init__(self):
        parameters = list(inspect.signature(self.handler).parameters.values())
        parameters = parameters[1:] if self.bind else parameters
        for parameter in parameters:
            if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
                raise TypeError(f"{self.name}: parameter {parameter} has no name that a stored job could use.")
            if parameter.name in RESERVED:
                raise TypeError(f"{self.name}: parameter {parameter.name} is an option of enqueue; rename it.")
        object.__setattr__(self, "signature", inspect.Signature(parameters))

    def named(self, args: tuple, kwargs: dict) -> dict:
        """Return the arguments by name, as they are stored.

        Raises: InvalidArguments when the handler would not take them.
        """
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise InvalidArguments(f"{self.name}{self.signature} does not take these arguments: {error}.") from None
        arguments = dict(bound.arguments)
        for parameter in self.signature.parameters.values():
            if parameter.kind is parameter.VAR_KEYWORD:
                arguments |= arguments.pop(parameter.name, {})
        return arguments

    def is_permanent(self, error: BaseException) -> bool:
        """Tell whether trying again cannot help."""
        return isinstance(error, PERMANENT + self.permanent)


_kinds: dict[str, Kind] = {}


def register(kind: Kind) -> None:
    """Make the kind known to this process.

    Raises: ValueError when another handler already has the name.
    """
    known = _kinds.get(kind.name)
    if known and known.handler.__qualname__ != kind.handler.__qualname__:
        raise ValueError(f"Two handlers are called {kind.name}; a kind names one.")
    _kinds[kind.name] = kind


def find(name: str) -> Kind | None:
    """Return the kind, or None when this process does not know it."""
    return _kinds.get(name)


def get(name: str) -> Kind:
    """Return the kind.

    Raises: UnknownKind, with the known names for the reader to find the right one.
    """
    if (kind := find(name)) is None:
        known = ", ".join(sorted(_kinds)) or "none"
        raise UnknownKind(f"No task is registered as {name!r}. Known kinds: {known}.")
    return kind


def kinds() -> list[Kind]:
    """Return all kinds known to this process, by name."""
    return [_kinds[name] for name in sorted(_kinds)]


def fitted_arguments(name: str, version: int, arguments: dict) -> dict:
    """Return stored arguments as this code's handler takes them, upgraded from an older version if it can.

    Raises: Unfit with a sentence that says what does not fit; whatever the kind's upgrade raises.
    """
    try:
        kind = get(name)
        if version < kind.version and kind.upgrade is not None:
            arguments = kind.upgrade(arguments, version)
        elif version != kind.version:
            raise Unfit(f"{name} has payload version {version}; this code knows version {kind.version}.")
        return kind.named((), arguments)
    except EnqueueError as error:
        raise Unfit(str(error)) from None


def broker_queue(queue: str) -> str:
    """Return the queue's name in the broker."""
    return BROKER_PREFIX + queue
