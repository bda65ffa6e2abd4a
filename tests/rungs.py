"""Run the tests on every rung of the ladder: `python -m tests.rungs [--rung NAME] [pytest arguments]`."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from xml.etree import ElementTree

from tests.services import Postgresql, Redis

RUNGS = {
    "sqlite+filesystem": (),
    "postgresql+filesystem": (Postgresql,),
    "postgresql+redis": (Postgresql, Redis),
}
# Tests that only need a database run once for each: on the first rung that has it.
TESTS = {"sqlite+filesystem": "tests", "postgresql+filesystem": "tests", "postgresql+redis": "tests/live"}

AT_ONCE = 2  # mostly they wait; what takes longest begins
# A rung may run in parts, each with servers of its own. Shape: rung and part.
RUNS = (
    ("postgresql+redis", "1/2"),
    ("sqlite+filesystem", "1/1"),
    ("postgresql+redis", "2/2"),
    ("postgresql+filesystem", "1/1"),
)


def main() -> int:
    """Run the rungs, print a table, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.rungs", description="Run the tests on every rung.")
    parser.add_argument("--rung", choices=RUNGS, help="only this rung")
    parser.add_argument("--part", default="1/1", help="only this part of its tests, e.g. 1/2")
    parser.add_argument("--row", type=Path, help="also write the rung's row of the table to this file, as JSON")
    options, pytest_arguments = parser.parse_known_args()
    if options.rung:
        rows = [run_rung(options.rung, [f"--part={options.part}", *pytest_arguments])]
    else:
        rows = merged(run_side_by_side(RUNS, pytest_arguments))
    if options.row:
        options.row.write_text(json.dumps(rows[0]))
    else:
        print("\n" + table(rows), flush=True)
    return int(any(row["failed"] for row in rows))


def run_side_by_side(runs: tuple[tuple[str, str], ...], pytest_arguments: list[str]) -> list[dict]:
    """Run each in a process of its own, some at once, and return their rows."""
    with tempfile.TemporaryDirectory(prefix="kit-rows-") as folder, ThreadPoolExecutor(AT_ONCE) as pool:
        files = [Path(folder) / f"{number}.json" for number in range(len(runs))]
        command = [sys.executable, "-m", "tests.rungs"]
        commands = [
            [*command, "--rung", rung, "--part", part, "--row", file, *pytest_arguments]
            for (rung, part), file in zip(runs, files, strict=True)
        ]
        titles = [rung if part == "1/1" else f"{rung} {part}" for rung, part in runs]
        list(pool.map(run_and_print, titles, commands))
        return [
            json.loads(file.read_text()) if file.exists() else {"rung": rung, "failed": 1, "note": "it ended early"}
            for (rung, _), file in zip(runs, files, strict=True)
        ]


def merged(rows: list[dict]) -> list[dict]:
    """Return one row for each rung: the sum of its parts, or the first that says why there is nothing to count."""
    found: dict[str, dict] = {}
    for row in sorted(rows, key=lambda row: "note" not in row):
        known = found.setdefault(row["rung"], row)
        if known is not row and "note" not in known:
            for name in ("passed", "failed", "skipped", "seconds", "failures"):
                known[name] += row[name]
    return [found[rung] for rung in RUNGS]


def run_and_print(name: str, command: list) -> None:
    """Run a command and print each of its lines with the rung's name."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as running:
        for line in running.stdout:
            print(f"{name:25}| {line}", end="", flush=True)


def run_rung(name: str, pytest_arguments: list[str]) -> dict:
    """Start the rung's servers, run pytest on them and return what came out, as a row of the table."""
    missing = [server for server in RUNGS[name] if not server.binary()]
    if missing:
        sentence = "; ".join(f"{server.program} is missing: install {server.package}" for server in missing)
        is_failure = bool(os.environ.get("CI"))
        print(f"== {name}: {'FAILED' if is_failure else 'skipped'}: {sentence}", flush=True)
        return {"rung": name, "failed": is_failure and sentence, "note": sentence}
    print(f"== {name}", flush=True)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kit-rung-") as base, ExitStack() as stack:
        Path(base).chmod(0o711)  # PostgreSQL runs as another user and must reach its folder below
        env = os.environ | environment(name, Path(base), stack)
        report = Path(base) / "report.xml"
        chosen = pytest_arguments if any(map(is_test_path, pytest_arguments)) else [TESTS[name], *pytest_arguments]
        command = [sys.executable, "-m", "pytest", f"--junitxml={report}", *chosen]
        code = subprocess.run(command, env=env).returncode
        counts = read_report(report)
        failures = failed_tests(report)
    if code not in (0, 5) and not counts["failed"]:  # 5: no test of the chosen ones applies to this rung
        counts["failed"] = f"pytest ended with {code}"
    return {"rung": name, **counts, "seconds": round(time.monotonic() - started), "failures": failures}


def environment(name: str, base: Path, stack: ExitStack) -> dict[str, str]:
    """Start the servers of a rung and return the variables that lead to them."""
    (base / "data").mkdir()
    env = {"RUNG": name, "DATA_DIR": str(base / "data"), "DJANGO_SETTINGS_MODULE": "tests.settings"}
    env |= {"DATABASE_URL": f"sqlite:///{base / 'data' / 'db.sqlite3'}", "CELERY_BROKER_URL": "filesystem://"}
    for server_class in RUNGS[name]:
        folder = base / server_class.__name__.lower()
        folder.mkdir()
        server = server_class(folder).start()
        stack.callback(server.stop)
        env["DATABASE_URL" if server_class is Postgresql else "CELERY_BROKER_URL"] = server.url
        env[f"{server_class.__name__.upper()}_DIR"] = str(folder)
    return env


def is_test_path(argument: str) -> bool:
    """Tell whether a pytest argument names tests."""
    return Path(argument.split("::")[0]).exists()


def read_report(report: Path) -> dict[str, int]:
    """Return how many tests passed, failed and were skipped."""
    if not report.exists():
        return {"passed": 0, "failed": 0, "skipped": 0}
    suite = ElementTree.parse(report).getroot().find("testsuite")
    total, failures, errors, skipped = (int(suite.get(name)) for name in ("tests", "failures", "errors", "skipped"))
    return {"passed": total - failures - errors - skipped, "failed": failures + errors, "skipped": skipped}


def failed_tests(report: Path) -> list[str]:
    """Return the names of the tests that failed, each with the first line of why."""
    cases = ElementTree.parse(report).getroot().iter("testcase") if report.exists() else ()
    why = [(case, case.find(kind)) for case in cases for kind in ("failure", "error")]
    return [
        f"{case.get('classname')}::{case.get('name')} {found.get('message', '').partition(chr(10))[0][:100]}"
        for case, found in why
        if found is not None
    ]


def table(rows: list[dict]) -> str:
    """Return the rows as text, one line a rung."""
    names = ("passed", "failed", "skipped", "seconds")
    lines = [f"{'rung':24}" + "".join(f"{name:>9}" for name in names)]
    for row in rows:
        cells = "".join(f"{row.get(name, '-'):>9}" for name in names) if "note" not in row else "  " + row["note"]
        lines.append(f"{row['rung']:24}{cells}")
    lines += [f"FAILED on {row['rung']}: {failure}" for row in rows for failure in row.get("failures", ())]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
