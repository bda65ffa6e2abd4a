"""Let the processes of one release take over from those of another, or leave everything as it was.

The new ones start beside the old ones and have to prove themselves; only then the old ones stop. Flower alone has a
port of its own, so there the old one stops first.
"""

from collections.abc import Callable, Iterator

from . import django, health, systemd
from .errors import KitError
from .guard import undisturbed
from .layout import Layout, point
from .shell import say

SMOKE_LIMIT_S = 60


def take_over(layout: Layout, new: str, old: str | None) -> None:
    """Start the new release, prove it, let boot start it, and stop the old one.

    Raises: KitError when it does not come up; then the old one serves as before.
    """
    mark = layout.starting(new)
    mark.parent.mkdir(exist_ok=True)
    mark.touch()
    try:
        begin(layout, new)
        replace_flower(layout, new, old)
        systemd.enable(units(layout, new))
        point(layout.current, f"releases/{new}")  # from here on a boot starts the new release
        end(layout, old)
    except BaseException as error:
        with undisturbed():
            failed = put_back(layout, new, old)
        if failed:
            raise KitError(f"{error or type(error).__name__} Besides, on the way back: {' '.join(failed)}") from error
        raise
    finally:
        mark.unlink()


def units(layout: Layout, name: str, *, without: tuple[str, ...] = ()) -> list[str]:
    """Return the units of a release, all that run here or all but some."""
    return [layout.unit(role, name) for role in layout.roles() if role not in without]


def begin(layout: Layout, new: str) -> None:
    """Start the new processes beside the old, and let them prove that they work. Raises: KitError."""
    systemd.give_back(layout.unit("worker", new))  # it may be ending still, from an earlier change
    say(f"starting {new}")
    systemd.start(units(layout, new, without=("flower",)))
    health.wait_for_answer(layout, new)
    smoke(layout, new)


def smoke(layout: Layout, name: str) -> None:
    """Send a job through the whole chain, to a worker of that release.

    A worker that is busy with other jobs has proved the chain by them, and a pause is a person's wish: both are told,
    and neither holds up a deploy. Raises: KitError.
    """
    limit = ["--limit-s", str(SMOKE_LIMIT_S)]
    answer = django.ask_deploy(layout, name, "smoke", *limit, what="The smoke test failed", role="web")
    if answer.get("is_paused"):
        return say("the smoke test was left out: a person has paused its queue or its kind")
    if answer["fault"] and any(is_worker_of(layout, name, worker) for worker in answer.get("busy", [])):
        return say(f"the smoke test waits: the worker runs other jobs, all its processes are busy ({answer['fault']})")
    if answer["fault"]:
        raise KitError(f"The smoke test failed: {answer['fault']}.")
    say("the smoke test passed: a job went through the whole chain")


def is_worker_of(layout: Layout, name: str, worker: str) -> bool:
    """Tell whether a worker as jobs name it, host:pid:start, is that release's."""
    return worker.split(":")[1:2] == [systemd.main_pid(layout.unit("worker", name))]


def replace_flower(layout: Layout, new: str, old: str | None) -> None:
    """Let the new Flower have the port. Raises: KitError."""
    if "flower" not in layout.roles():
        return
    if old:
        systemd.stop([layout.unit("flower", old)])
    systemd.start([layout.unit("flower", new)])
    health.wait_for_flower(layout)


def end(layout: Layout, old: str | None) -> None:
    """Stop the old processes; the worker finishes its jobs in the background."""
    if old is None:
        return
    say(f"stopping {old}; its worker finishes what it runs in the background")
    systemd.begin_stop(layout.unit("worker", old))
    systemd.stop(units(layout, old, without=("worker", "flower")))
    systemd.disable(units(layout, old))


def put_back(layout: Layout, new: str, old: str | None) -> list[str]:
    """Let the old release run alone again, whatever has been done so far; return what did not work.

    Whatever fails, the other steps are taken: an old unit that was down before must not leave two releases running.
    """
    say(f"putting {old} back" if old else f"stopping {new}")
    failed = []
    for step in steps_back(layout, new, old):
        try:
            step()
        except Exception as error:
            failed.append(str(error))
    return failed


def steps_back(layout: Layout, new: str, old: str | None) -> Iterator[Callable[[], None]]:
    """Give the steps: the old processes serve before the new ones stop."""
    if old:
        yield lambda: point(layout.current, f"releases/{old}")
        yield lambda: systemd.give_back(layout.unit("worker", old))
        yield lambda: systemd.stop([layout.unit("flower", new)])
        yield lambda: systemd.start(units(layout, old))
        yield lambda: systemd.enable(units(layout, old))
    else:
        yield lambda: layout.current.unlink(missing_ok=True)
    if "worker" in layout.roles():
        yield lambda: systemd.begin_stop(layout.unit("worker", new))
    yield lambda: systemd.stop(units(layout, new, without=("worker",)))
    yield lambda: systemd.disable(units(layout, new))
