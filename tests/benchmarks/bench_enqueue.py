"""What its jobs cost the signup transaction: medians, with and without them, in turn. Run by `make bench`."""

import time
from statistics import median, quantiles

import pytest
from django.db import transaction

from project.signup.models import SignupRequest
from project.signup.services import _signup_of
from tasks.api import draft, enqueue_many

ROUNDS = 300


def signup_ms(number: int, jobs: int) -> float:
    """Write one signup with so many jobs and return how long its transaction took. Units: milliseconds."""
    started = time.perf_counter()
    with transaction.atomic():
        signup = _signup_of("Person", f"person-{number}@example.com")
        request = SignupRequest.objects.create(signup=signup, name="Person", password="hashed before")
        enqueue_many(
            draft("signup.confirmation_email", request_id=request.id, unique_key=f"confirm:{request.id}:{job}")
            for job in range(jobs)
        )
    return (time.perf_counter() - started) * 1000


@pytest.mark.django_db(transaction=True)
def test_cost_of_enqueue(capsys):
    """Print the table."""
    times: dict[int, list[float]] = {0: [], 1: [], 4: []}
    for number in range(20):
        signup_ms(number, 1)  # warm

    for number in range(ROUNDS):
        for index, jobs in enumerate(times):
            times[jobs].append(signup_ms(1000 + number * 10 + index, jobs))

    with capsys.disabled():
        print(f"\nsignup transaction, {ROUNDS} rounds in turn\n{'jobs':>6}{'median ms':>12}{'p99 ms':>10}")
        for jobs, found in times.items():
            print(f"{jobs:>6}{median(found):>12.2f}{quantiles(found, n=100)[98]:>10.2f}")
