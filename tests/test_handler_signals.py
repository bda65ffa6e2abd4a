"""The pool's signals reach the handler and nothing else, also where the process has more threads."""

import os
import signal
import threading

import pytest
from celery.exceptions import SoftTimeLimitExceeded

from tasks import handler_signals


@pytest.fixture(autouse=True)
def second_thread():
    """Have another thread in the process, as a provider's library may start one."""
    end = threading.Event()
    thread = threading.Thread(target=end.wait)
    thread.start()
    yield
    end.set()
    thread.join()


@pytest.fixture(autouse=True)
def pool():
    """Take SIGTERM as a pool's child does, and stop the clock that bounds its end."""

    def end(number, frame):
        raise SystemExit(-241)

    before = signal.signal(signal.SIGTERM, end)
    yield end
    signal.signal(signal.SIGTERM, before)
    signal.alarm(0)


def limit() -> None:
    """Do what the pool does when a message takes too long."""
    os.kill(os.getpid(), signal.SIGUSR1)


def end() -> None:
    """Do what the pool does to end a child."""
    os.kill(os.getpid(), signal.SIGTERM)


def test_handler_feels_the_limit():
    with handler_signals.held(), pytest.raises(SoftTimeLimitExceeded), handler_signals.felt():
        limit()


def test_statements_around_the_handler_do_not_feel_the_limit():
    with handler_signals.held():
        limit()
        with handler_signals.felt():
            pass
        limit()


def test_handler_feels_the_end_of_its_process():
    with handler_signals.held(), pytest.raises(SystemExit), handler_signals.felt():
        end()


def test_end_that_comes_during_the_claim_is_felt_by_the_handler():
    steps = []

    with handler_signals.held():
        end()
        steps.append("claimed")
        with pytest.raises(SystemExit), handler_signals.felt():
            steps.append("handler called")

    assert steps == ["claimed"]


def test_end_that_comes_after_the_handler_waits_until_the_row_is_finished():
    steps = []

    with pytest.raises(SystemExit), handler_signals.held():
        with handler_signals.felt():
            pass
        end()
        assert handler_signals.is_ending()
        steps.append("finished")

    assert steps == ["finished"]


def test_second_end_does_not_disturb_giving_the_job_back():
    steps = []

    with handler_signals.held():
        with pytest.raises(SystemExit), handler_signals.felt():
            end()
        end()
        steps.append("given back")

    assert steps == ["given back"]


def test_end_is_bounded_whatever_a_statement_waits_for():
    with pytest.raises(SystemExit), handler_signals.held():
        end()

        remaining_s = signal.alarm(0)

    assert 0 < remaining_s <= handler_signals.END_S


def test_pool_gets_its_own_handlers_back(pool):
    before = signal.getsignal(signal.SIGUSR1)

    with handler_signals.held():
        assert signal.getsignal(signal.SIGUSR1) is not before

    assert (signal.getsignal(signal.SIGUSR1), signal.getsignal(signal.SIGTERM)) == (before, pool)
