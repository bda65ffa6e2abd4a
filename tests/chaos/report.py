"""What a person reads at the end."""

from collections import Counter
from pathlib import Path

from tests.chaos import recovery
from tests.chaos.checks import Complaint, Found
from tests.chaos.marks import START
from tests.chaos.system import System

COMPLAINTS_SHOWN, HISTORIES_SHOWN, LOG_LINES = 20, 3, 40


def summary(found: Found, system: System, faults: Counter, missed: int) -> str:
    """Return the tables: faults by kind, processes, jobs by kind and end, attempts, recovery."""
    lines = [f"\n{'fault':28}{'times':>6}"]
    lines += [f"{name:28}{times:>6}" for name, times in sorted(faults.items())]
    lines += [f"{'all':28}{faults.total():>6}   ({missed} more found nothing to hit)", ""]
    lines += [f"{'process':28}{'starts':>6}"]
    lines += [f"{process.name:28}{process.starts:>6}" for process in system.processes]
    lines += ["", f"{'kind':24}{'succeeded':>10}{'dead':>6}{'runs':>7}{'attempts':>10}{'interrupted':>13}"]
    lines += [kind_line(kind, [job for job in found.jobs if job.kind == kind]) for kind in kinds(found)]
    lines += [kind_line("all", found.jobs), ""]
    starts = sum(mark.what == START for marks in found.marks.values() for mark in marks)
    unstarted = sum(len(found.not_started(job)) for job in found.jobs)
    lines.append(f"{len(found.rolled_back)} more were enqueued and rolled back")
    lines.append(f"handlers were started {starts} times; {unstarted} runs ended before their handler's first line")
    lines += recovery.told(found, system.kills)
    return "\n".join(lines)


def kinds(found: Found) -> list[str]:
    """Return the kinds that came."""
    return sorted({job.kind for job in found.jobs})


def kind_line(name: str, jobs: list) -> str:
    """Return one line of the table of jobs."""
    ends = Counter(job.state for job in jobs)
    runs, attempts, interrupted = (sum(getattr(job, field) for job in jobs) for field in FIELDS)
    return f"{name:24}{ends['succeeded']:>10}{ends['dead']:>6}{runs:>7}{attempts:>10}{interrupted:>13}"


FIELDS = ("run", "attempts", "interruptions")


def failure(found: Found, complaints: list[Complaint], logs: Path, origin: float) -> str:
    """Return what went wrong, with the history of the first jobs concerned."""
    lines = [f"\n{len(complaints)} promises were broken:"]
    for complaint in complaints[:COMPLAINTS_SHOWN]:
        lines.append(f"- {f'job {complaint.job} ' if complaint.job else ''}{complaint.sentence}")
    if len(complaints) > COMPLAINTS_SHOWN:
        lines.append(f"- and {len(complaints) - COMPLAINTS_SHOWN} more")
    concerned = list(dict.fromkeys(complaint.job for complaint in complaints if complaint.job))
    for job_id in concerned[:HISTORIES_SHOWN]:
        lines += history(found, job_id, logs, origin)
    return "\n".join([*lines, f"All logs: {logs}"])


def history(found: Found, job_id: int, logs: Path, origin: float) -> list[str]:
    """Return a job's row, its history, its marks and what the logs say of it."""
    [job] = [job for job in found.jobs if job.id == job_id]
    lines = [f"\njob {job.id} {job.kind} {job.arguments}: {job.state}, run {job.run}, attempts {job.attempts}"]
    lines.append(f"  relayed {job.relayed_at}, started {job.started_at}, by {job.worker} {job.child_pid}")
    lines += [f"  row: {entry['at']} run {entry.get('run')}: {entry.get('error')}" for entry in job.history]
    for run, marks in found.runs(job_id).items():
        told = ", ".join(f"{mark.what} {mark.note} {mark.at - origin:.2f}" for mark in (marks[0], marks[-1]))
        lines.append(f"  run {run}, attempt {marks[0].attempt}, pid {marks[0].pid} of {marks[0].group}: {told}")
    return lines + [f"  {line}" for line in log_lines(logs, job_id)][:LOG_LINES]


def log_lines(logs: Path, job_id: int) -> list[str]:
    """Return the lines of all processes that name the job, in the order of time."""
    found = []
    for log in logs.glob("*.log"):
        text = log.read_text(errors="replace").splitlines()
        found += [(line, log.stem) for line in text if f"job {job_id}." in line or f"job {job_id}:" in line]
    return [f"{name}: {line}" for line, name in sorted(found)]
