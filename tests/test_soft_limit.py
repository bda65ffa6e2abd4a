"""The soft time limit reaches the handler and nothing else, also where the process has more threads."""

import os
import signal
import threading

import pytest
from celery.exceptions import SoftTimeLimitExceeded

from tasks import soft_limit


@pytest.fixture(autouse=True)
def second_thread():
    """Have another thread in the process, as a provider's library may start one."""
    end = threading.Event()
    thread = threading.Thread(target=end.wait)
    thread.start()
    yield
    end.set()
    thread.join()


def limit() -> None:
    """Do what the pool does."""
    os.kill(os.getpid(), signal.SIGUSR1)


def test_handler_feels_the_limit():
    with soft_limit.held(), pytest.raises(SoftTimeLimitExceeded), soft_limit.felt():
        limit()


def test_statements_around_the_handler_do_not_feel_it():
    with soft_limit.held():
        limit()
        with soft_limit.felt():
            pass
        limit()


def test_pool_gets_its_own_handler_back():
    before = signal.getsignal(signal.SIGUSR1)

    with soft_limit.held():
        assert signal.getsignal(signal.SIGUSR1) is not before

    assert signal.getsignal(signal.SIGUSR1) is before
