"""Many people sign up at once, each from an address of its own."""

import http.client
import json
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from statistics import quantiles

from tests.services import HOST

THREADS = 8


@dataclass(frozen=True)
class Answer:
    """What one person got.

    Units: seconds from the connection's start to the last byte.
    """

    status: int
    seconds: float


def sign_up(port: int, number: int) -> Answer:
    """Send one signup and return the answer."""
    client = (f"127.{1 + number // 62_500 % 250}.{number // 250 % 250}.{1 + number % 250}", 0)
    fields = {"name": f"Person {number}", "email": f"person-{number}@example.com", "password": f"long-enough-{number}"}
    started = time.perf_counter()
    connection = http.client.HTTPConnection(HOST, port, timeout=30, source_address=client)
    try:
        connection.request("POST", "/api/signup", json.dumps(fields), {"Content-Type": "application/json"})
        response = connection.getresponse()
        response.read()
        return Answer(response.status, time.perf_counter() - started)
    finally:
        connection.close()


def sign_up_many(port: int, numbers: Iterable[int]) -> list[Answer]:
    """Send signups from eight threads and return the answers."""
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(lambda number: sign_up(port, number), numbers))


def p50_and_p95_ms(answers: list[Answer]) -> tuple[float, float]:
    """Return the median and the 95th percentile. Units: milliseconds."""
    cuts = quantiles([answer.seconds * 1000 for answer in answers], n=20)
    return cuts[9], cuts[18]
