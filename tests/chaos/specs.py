"""What the run asks of each kind: how often it comes, with what, and which end is its own."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from tasks.states import State

ONCE, SOME, NONE = "exactly one effect", "an effect or more", "no effect"

# Kinds declared with a rate limit: how many starts a second. Add one to tasks.py and SPECS; checks.py does the rest.
RATE_LIMITED: dict[str, int] = {"chaos.limited": 3}
# The same for kinds declared with a cap: how many may run at once.
CAPPED: dict[str, int] = {"chaos.capped": 2}


@dataclass(frozen=True)
class Spec:
    """What the run asks of a kind. Shape: reason is how the error of its own end begins, for dead ones."""

    weight: int
    end: State = State.SUCCEEDED
    reason: str = ""
    effects: str = NONE
    own_errors: tuple[str, ...] = ()
    arguments: Callable[[Random], dict] = lambda random: {}


def failures(random: Random) -> dict:
    """Return how often a flaky job fails."""
    return {"failures": random.randint(1, 3)}


def seconds(low: float, high: float) -> Callable[[Random], dict]:
    """Return what draws a duration."""
    return lambda random: {"seconds": round(random.uniform(low, high), 2)}


ON_PURPOSE = ("RuntimeError: on purpose",)
SPECS = {
    "chaos.quick": Spec(30, effects=SOME),
    "chaos.mail": Spec(15, effects=SOME),
    "chaos.slow": Spec(60, effects=SOME, arguments=seconds(0.5, 4)),
    "chaos.steps": Spec(10, effects=SOME, arguments=lambda random: {"count": random.randint(2, 6)}),
    "chaos.snooze": Spec(4, effects=SOME),
    "chaos.flaky": Spec(8, effects=SOME, own_errors=ON_PURPOSE, arguments=failures),
    "chaos.atomic": Spec(16, effects=ONCE, arguments=seconds(0, 1.2)),
    "chaos.atomic_flaky": Spec(6, effects=ONCE, own_errors=ON_PURPOSE, arguments=failures),
    "chaos.hopeless": Spec(4, State.DEAD, "RuntimeError: on purpose", own_errors=ON_PURPOSE),
    "chaos.hopeless_atomic": Spec(2, State.DEAD, "RuntimeError: on purpose", own_errors=ON_PURPOSE),
    "chaos.permanent": Spec(3, State.DEAD, "PermanentError: on purpose", own_errors=("PermanentError: on purpose",)),
    "chaos.poison": Spec(2, State.DEAD, "Its process was lost"),
    "chaos.overlong": Spec(1, State.DEAD, "The soft time limit of 1 s"),
    "chaos.hog": Spec(1, State.DEAD, "The hard time limit of 2 s"),
    "chaos.limited": Spec(14, effects=SOME),
    "chaos.capped": Spec(8, effects=SOME, arguments=seconds(0.5, 2)),
    "chaos.tick": Spec(0, effects=SOME),  # beat enqueues it
}
