"""Which kinds of job exist here, and whether a stored job fits the code that would run it."""

import inspect
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from django.core.exceptions import ObjectDoesNotExist, SuspiciousOperation, ValidationError

from tasks import backoff
from tasks.errors import EnqueueError, InvalidArguments, PermanentError, Unfit, UnknownKind
from tasks.turns import RateLimit

# The one place that sorts failures: these bury a job at once, anything else is tried again.
PERMANENT = (PermanentError, ObjectDoesNotExist, ValidationError, SuspiciousOperation)

BROKER_PREFIX = "q."  # one ACL pattern covers every queue; source: docs/decisions/0003
RESERVED = frozenset({"unique_key", "unique_scope", "run_at", "priority", "keep_until"})
NAME = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+")
QUEUE = re.compile(r"[a-z0-9_-]{1,40}")
WHOLE_NUMBERS = {"priority": (0, 9), "max_attempts": (1, 32_767), "version": (1, 32_767)}  # what the columns hold
SECONDS = ("backoff_base_s", "backoff_cap_s", "max_age_s")
SECONDS_OR_NONE = ("soft_time_limit_s", "time_limit_s")
NOT_PLAIN = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)
BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


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
    rate_limit: RateLimit | None = None
    max_running: int | None = None
    signature: inspect.Signature = field(init=False)

    def __post_init__(self):
        if found := list(faults(self)):
            raise ValueError(f"{self.name}: {'; '.join(found)}.")
        parameters = list(inspect.signature(self.handler).parameters.values())
        if any(is_other(self.handler) for is_other in NOT_PLAIN):
            raise TypeError(
                f"{self.name}: it is a coroutine or a generator; a worker would call it and nothing would run."
            )
        if self.bind and not (parameters and parameters[0].kind in BY_POSITION):
            raise TypeError(f"{self.name}: with bind=True its first parameter is the running job; it has none.")
        parameters = parameters[1:] if self.bind else parameters
        for parameter in parameters:
            if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
                raise TypeError(f"{self.name}: parameter {parameter} has no name that a stored job could use.")
            if parameter.name in RESERVED:
                raise TypeError(f"{self.name}: parameter {parameter.name} is an option of enqueue; rename it.")
        object.__setattr__(self, "signature", inspect.Signature(parameters))

    @property
    def limits(self) -> list[str]:
        """Return the names of the limits that bound when its jobs start."""
        rate = [self.rate_limit.name] if self.rate_limit else []
        return sorted({*rate, *([self.name] if self.max_running is not None else [])})

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


def faults(kind: Kind) -> Iterator[str]:
    """Yield what is wrong with a declaration's options, each in words."""
    if not (isinstance(kind.name, str) and len(kind.name) <= 100 and NAME.fullmatch(kind.name)):
        yield "its name must be feature.what: lower-case words with dots and underscores, at most 100 characters"
    if not (isinstance(kind.queue, str) and QUEUE.fullmatch(kind.queue)):
        yield f"queue is {kind.queue!r}; give it 1 to 40 characters of a-z, 0-9, _ and -"
    if not (isinstance(kind.permanent, tuple) and all(map(is_exception, kind.permanent))):
        yield f"permanent is {kind.permanent!r}; give it a tuple of exception classes"
    if not (kind.upgrade is None or callable(kind.upgrade)):
        yield f"upgrade is {kind.upgrade!r}; give it a function"
    if not (kind.rate_limit is None or isinstance(kind.rate_limit, RateLimit)):
        yield f"rate_limit is {kind.rate_limit!r}; give it a RateLimit"
    if not (kind.max_running is None or type(kind.max_running) is int and kind.max_running > 0):
        yield f"max_running is {kind.max_running!r}; give it a whole number above 0"
    yield from faults_of_numbers(kind)


def faults_of_numbers(kind: Kind) -> Iterator[str]:
    """Yield which number is out of its bounds, or does not fit another one."""
    for name, (low, high) in WHOLE_NUMBERS.items():
        value = getattr(kind, name)
        if type(value) is not int or not low <= value <= high:
            yield f"{name} is {value!r}; give it a whole number from {low} to {high}"
    given = [name for name in SECONDS_OR_NONE if getattr(kind, name) is not None]
    bad = [name for name in (*SECONDS, *given) if not is_seconds(getattr(kind, name))]
    for name in bad:
        yield f"{name} is {getattr(kind, name)!r}; give it a number of seconds above 0"
    if bad:
        return
    if kind.backoff_cap_s < kind.backoff_base_s:
        yield f"backoff_cap_s of {kind.backoff_cap_s:g} s is below backoff_base_s of {kind.backoff_base_s:g} s"
    if len(given) == 2 and kind.soft_time_limit_s >= kind.time_limit_s:
        yield f"soft_time_limit_s of {kind.soft_time_limit_s:g} s is not below time_limit_s of {kind.time_limit_s:g} s"


def is_exception(value) -> bool:
    """Tell whether a value is a class of exceptions that can be caught as Exception."""
    return isinstance(value, type) and issubclass(value, Exception)


def is_seconds(value) -> bool:
    """Tell whether a value is a duration that some time can pass in."""
    return type(value) in (int, float) and math.isfinite(value) and value > 0


_kinds: dict[str, Kind] = {}


def register(kind: Kind) -> None:
    """Make the kind known to this process.

    Raises: ValueError when another handler already has the name.
    """
    known = _kinds.get(kind.name)
    if known and origin(known.handler) != origin(kind.handler):  # the same one again: its module is imported anew
        both = f"{origin(known.handler)} and {origin(kind.handler)}"
        raise ValueError(f"Two handlers are called {kind.name}: {both}; a kind names one.")
    for other in _kinds.values():
        both = (kind.rate_limit, other.rate_limit)
        if other.name != kind.name and all(both) and both[0].name == both[1].name and both[0] != both[1]:
            raise ValueError(f"{kind.name} and {other.name} share the rate limit {both[0].name} but not its numbers.")
    _kinds[kind.name] = kind


def origin(handler: Callable) -> str:
    """Return where a handler is written."""
    return f"{handler.__module__}.{handler.__qualname__}"


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


def queue_of(broker_queue: str) -> str:
    """Return the name in the table of a queue of the broker."""
    return broker_queue.removeprefix(BROKER_PREFIX)
