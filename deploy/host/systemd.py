"""What is asked of systemd: start, stop, enable, and steps in a sandbox of their own."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from .errors import KitError
from .layout import ROLES, Layout
from .shell import answers, run, say
from .waiting import wait_until

START_LIMIT_S = 600
STOP_LIMIT_S = 90
GIVE_BACK_LIMIT_S = 60
TOLD_LINES = "12"
STEP = "kit-step"
# For what runs between the services: it must neither slow them, nor reach anything but what it is given.
STEP_PROPERTIES = ("Slice=kit.slice", "CPUWeight=20", "IOWeight=20", "OOMPolicy=kill", "NoNewPrivileges=yes")
SANDBOX = (
    "ProtectSystem=strict",
    "ProtectHome=yes",
    "PrivateTmp=yes",
    "PrivateDevices=yes",
    "PrivateNetwork=yes",
    "RestrictAddressFamilies=AF_UNIX",
    "CapabilityBoundingSet=",
    "UMask=0022",
)


def start(units: list[str]) -> None:
    """Start units and wait until each says that it is ready.

    Raises: KitError that names the first that is not; its last words are printed.
    """
    if not units:
        return
    answers(["systemctl", "start", *units], limit_s=START_LIMIT_S)
    for unit, found in states(units).items():
        if found != "active":
            _, told = answers(["journalctl", "--unit", unit, "--lines", TOLD_LINES, "--no-pager", "--output=cat"])
            say("\n".join(f"    {line}" for line in told.splitlines()))
            raise KitError(f"{unit} did not start.")


def stop(units: list[str]) -> None:
    """Stop units warmly and wait for it."""
    if units:
        run(["systemctl", "stop", *units], f"{', '.join(units)} did not stop", limit_s=STOP_LIMIT_S)


def begin_stop(unit: str) -> None:
    """Let a unit finish what it runs, in the background."""
    run(["systemctl", "stop", "--no-block", unit], f"{unit} was not told to stop")


def give_back(unit: str) -> None:
    """Let a worker that is stopping give back what it runs, without charge, and wait for its end."""
    if state(unit) == "deactivating":
        answers(["systemctl", "kill", "--kill-whom=main", "--signal=QUIT", unit])
        wait_until(lambda: state(unit) != "deactivating", GIVE_BACK_LIMIT_S, f"{unit} does not end")


def restart(units: list[str]) -> None:
    """Restart units and wait until each is ready. Raises: KitError."""
    answers(["systemctl", "restart", *units], limit_s=START_LIMIT_S)
    start(units)


def restart_worker(unit: str, patience_s: float) -> None:
    """Restart a worker: it finishes what fits into the time, and gives back the rest."""
    before = main_pid(unit)
    run(["systemctl", "restart", "--no-block", unit], f"{unit} was not told to restart")
    with contextlib.suppress(KitError):  # it took too long, and give_back ends it
        wait_until(lambda: main_pid(unit) != before, patience_s, f"{unit} does not end")
    give_back(unit)
    start([unit])


def states(units: list[str]) -> dict[str, str]:
    """Return the state of each unit: active, activating, deactivating, inactive, failed."""
    _, told = answers(["systemctl", "is-active", *units])
    return dict(zip(units, told.split(), strict=True))


def state(unit: str) -> str:
    """Return a unit's state."""
    return states([unit])[unit]


def main_pid(unit: str) -> str:
    """Return the pid of a unit's main process, 0 when there is none."""
    return show(unit, "MainPID")["MainPID"]


def show(unit: str, *properties: str) -> dict[str, str]:
    """Return properties of a unit."""
    _, told = answers(["systemctl", "show", unit, *(f"--property={name}" for name in properties)])
    return dict.fromkeys(properties, "") | dict(line.split("=", 1) for line in told.splitlines() if "=" in line)


def running(layout: Layout) -> dict[str, set[str]]:
    """Return the roles that run or are about to, by release; those that finish their work too."""
    states = "--state=active,activating,deactivating,reloading"
    _, told = answers(["systemctl", "list-units", states, "--plain", "--no-legend", "kit-*@*.service"])
    return by_release(line.split()[0] for line in told.splitlines() if line.strip())


def enabled(layout: Layout) -> dict[str, set[str]]:
    """Return the roles that boot would look at, by release."""
    return by_release(file.name for file in layout.units.glob("multi-user.target.wants/kit-*@*.service"))


def by_release(units: Iterator[str]) -> dict[str, set[str]]:
    """Sort the app's units by release."""
    found: dict[str, set[str]] = {}
    for unit in units:
        role, _, release = unit.removesuffix(".service").removeprefix("kit-").partition("@")
        if role in ROLES:
            found.setdefault(release, set()).add(role)
    return found


def enable(units: list[str]) -> None:
    """Let boot start units; nothing that runs has to know, and a reload takes seconds."""
    if units:
        run(["systemctl", "enable", "--no-reload", "--quiet", *units], "The units were not enabled")


def disable(units: list[str]) -> None:
    """Let boot leave units alone."""
    if units:
        run(["systemctl", "disable", "--no-reload", "--quiet", *units], "The units were not disabled")


def step(
    command: list[str],
    what: str,
    *,
    user: str = "root",
    folder: Path = Path("/"),
    properties: tuple[str, ...] = (),
    env: dict[str, str] | None = None,
    stdout: int | IO = subprocess.PIPE,
    limit_s: float = 900,
) -> str:
    """Run a command as a transient unit, behind the services in line for the processor, and return what it prints.

    Raises: KitError as shell.run; whatever ends this process meanwhile ends the step, too.
    """
    unit = step_name()
    wanted = (*STEP_PROPERTIES, *properties, f"User={user}", f"WorkingDirectory={folder}")
    options = [f"--property={setting}" for setting in wanted]
    options += [f"--setenv={name}={value}" for name, value in (env or {}).items()]
    program = ["systemd-run", "--quiet", "--wait", "--pipe", "--collect", f"--unit={unit}", *options, *command]
    try:
        return run(program, what, stdout=stdout, limit_s=limit_s)
    except BaseException:
        answers(["systemctl", "stop", f"{unit}.service"])
        raise


def step_name() -> str:
    """Return the name of the next step's unit."""
    return f"{STEP}-{os.getpid()}"


def end_left_steps() -> None:
    """End steps of a deploy that was killed: they would write into what is built anew."""
    answers(["systemctl", "stop", f"{STEP}-*.service"])
