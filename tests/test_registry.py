"""What may be declared as a kind, and that a name belongs to one handler."""

import pytest

from tasks import registry
from tasks.registry import Kind


@pytest.fixture
def known(monkeypatch):
    """Give the kinds of this process, to add to in one test."""
    kinds = dict(registry._kinds)
    monkeypatch.setattr(registry, "_kinds", kinds)
    return kinds


def handler():
    """Do nothing."""


async def coroutine():
    """Would only make a coroutine that nobody awaits."""


def generator():
    """Would only make a generator that nobody asks."""
    yield


def twin(module: str):
    """Return another function of the same name, as if from another module."""

    def made():
        """Do nothing."""

    made.__module__, made.__qualname__ = module, "send"
    return made


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"max_attempts": 0}, "max_attempts is 0; give it a whole number from 1 to 32767"),
        ({"max_attempts": 40_000}, "max_attempts is 40000"),
        ({"max_attempts": 2.5}, "max_attempts is 2.5"),
        ({"max_attempts": "5"}, "max_attempts is '5'"),
        ({"max_attempts": True}, "max_attempts is True"),
        ({"priority": -1}, "priority is -1; give it a whole number from 0 to 9"),
        ({"priority": 10}, "priority is 10"),
        ({"version": 0}, "version is 0; give it a whole number from 1 to 32767"),
        ({"queue": ""}, "queue is ''; give it 1 to 40 characters of a-z, 0-9, _ and -"),
        ({"queue": "Mail"}, "queue is 'Mail'"),
        ({"queue": "mail\n"}, "queue is 'mail\\n'"),
        ({"queue": "a" * 41}, "queue is 'aaa"),
        ({"queue": None}, "queue is None"),
        ({"soft_time_limit_s": 0}, "soft_time_limit_s is 0; give it a number of seconds above 0"),
        ({"time_limit_s": -5}, "time_limit_s is -5"),
        ({"time_limit_s": float("nan")}, "time_limit_s is nan"),
        ({"time_limit_s": float("inf")}, "time_limit_s is inf"),
        ({"max_age_s": 0}, "max_age_s is 0"),
        ({"backoff_base_s": 0}, "backoff_base_s is 0"),
        ({"backoff_cap_s": None}, "backoff_cap_s is None"),
        ({"backoff_base_s": 10, "backoff_cap_s": 9}, "backoff_cap_s of 9 s is below backoff_base_s of 10 s"),
        ({"soft_time_limit_s": 30, "time_limit_s": 30}, "soft_time_limit_s of 30 s is not below time_limit_s of 30 s"),
        ({"permanent": [KeyError]}, "permanent is [<class 'KeyError'>]; give it a tuple of exception classes"),
        ({"permanent": ("KeyError",)}, "permanent is ('KeyError',)"),
        ({"upgrade": "no function"}, "upgrade is 'no function'; give it a function"),
    ],
)
def test_senseless_declaration_is_refused_in_words(options, says):
    """At import, before a row could be written with it."""
    with pytest.raises(ValueError) as refused:
        Kind(name="shop.invoice", handler=handler, **options)

    assert str(refused.value).startswith("shop.invoice: ")
    assert says in str(refused.value)


def test_every_fault_of_a_declaration_is_told_at_once():
    """Nobody should have to find them one by one."""
    with pytest.raises(ValueError) as refused:
        Kind(name="shop.invoice", handler=handler, priority=10, version=0)

    assert "priority is 10" in str(refused.value) and "version is 0" in str(refused.value)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "invoice",
        "Shop.invoice",
        "shop.",
        ".invoice",
        "shop..invoice",
        "shop.in voice",
        "shop.9",
        "shop.invoice\n",
        7,
    ]
    + ["shop." + "a" * 96],
)
def test_kind_that_is_not_feature_dot_what_is_refused(name):
    """A kind is stored in rows, typed by people and spoken by Flower."""
    with pytest.raises(ValueError, match="its name must be feature.what"):
        Kind(name=name, handler=handler)


@pytest.mark.parametrize("name", ["shop.invoice", "jobs.prune", "shop.eu.invoice_2", "s.i", "shop." + "a" * 95])
def test_kind_called_feature_dot_what_is_taken(name):
    """The edges of what is allowed."""
    assert Kind(name=name, handler=handler).name == name


def test_edges_of_a_declaration_are_taken():
    """Each number at its bound."""
    limits = {"soft_time_limit_s": 0.5, "time_limit_s": 1, "backoff_base_s": 3, "backoff_cap_s": 3}

    kind = Kind(name="shop.invoice", handler=handler, max_attempts=1, priority=0, version=1, queue="a" * 40, **limits)

    assert (kind.max_attempts, kind.priority, kind.version) == (1, 0, 1)


@pytest.mark.parametrize("function", [coroutine, generator])
def test_handler_that_would_not_run_when_called_is_refused(function):
    """Calling it does nothing, so the job would succeed without having done anything."""
    with pytest.raises(TypeError, match="is a coroutine or a generator; a worker would call it and nothing would run"):
        Kind(name="shop.invoice", handler=function)


@pytest.mark.parametrize("function", [lambda: None, lambda *, running: None, lambda **kwargs: None])
def test_bound_handler_without_a_place_for_its_job_is_refused(function):
    """With bind=True the first parameter is the RunningJob, given by position."""
    with pytest.raises(TypeError, match="bind=True"):
        Kind(name="shop.invoice", handler=function, bind=True)


def test_same_function_name_in_another_module_is_another_handler(known):
    """Two features each have a send(); one of them would silently not run."""
    registry.register(Kind(name="shop.send", handler=twin("shop.tasks")))

    with pytest.raises(ValueError, match="Two handlers are called shop.send: shop.tasks.send and news.tasks.send"):
        registry.register(Kind(name="shop.send", handler=twin("news.tasks")))
    assert known["shop.send"].handler.__module__ == "shop.tasks"


def test_same_handler_may_be_declared_again(known):
    """A module that is imported again does."""
    registry.register(Kind(name="shop.send", handler=twin("shop.tasks")))
    again = Kind(name="shop.send", handler=twin("shop.tasks"))

    registry.register(again)

    assert known["shop.send"] is again
