"""What the deploy does to a Redis that runs: nothing that was not proved before, and nothing that costs it its data."""

import pytest

from tests.secured import SecuredRedis, apply
from tests.services import Redis, need

pytestmark = pytest.mark.rung("postgresql+redis")


class StockRedis(Redis):
    """As Debian configures it: snapshots now and then, no append-only file, nobody asked for a name."""

    is_append_only = "no"

    def command(self) -> list[str]:
        """Return how it is started."""
        options = ["--port", str(self.port), "--dir", str(self.folder), "--unixsocket", "socket"]
        return [self.binary(), *options, "--appendonly", self.is_append_only]


@pytest.fixture
def secured(tmp_path):
    """Give the deployed files, with secrets where the deploy looks for them; not started."""
    need("redis-server", "redis-server")
    (tmp_path / "secured").mkdir()
    server = SecuredRedis(tmp_path / "secured")
    for user, password in server.passwords.items():
        (server.folder / f"redis_{user}").write_text(password + "\n")
    return server


@pytest.fixture
def stock(tmp_path):
    """Give a running Redis as Debian starts it."""
    (tmp_path / "stock").mkdir()
    server = StockRedis(tmp_path / "stock").start()
    yield server
    server.kill()


def try_out(server: SecuredRedis) -> tuple[dict, list]:
    """Have the candidates tried, as the deploy does."""
    return apply["tried"]("redis", server.folder / "redis.conf", server.acl(), server.folder)


def test_redis_that_has_data_keeps_it_when_it_becomes_append_only(secured, stock):
    """The other order, the file first and then a start, begins with an empty append-only file and forgets all of it."""
    with stock.client() as client:
        client.mset({f"key{number}": number for number in range(1000)})
    live = apply["Redis"](str(stock.folder / "socket"))

    changed = list(apply["apply_settings"](live, try_out(secured)[0], is_check=False))
    stock.kill()
    stock.is_append_only = "yes"
    stock.start()

    assert "appendonly: turned on in the running instance" in changed
    with stock.client() as client:
        assert client.dbsize() == 1000


def test_memory_limit_changes_without_a_restart(secured, stock):
    """A larger server needs no stop of the broker."""
    live = apply["Redis"](str(stock.folder / "socket"))
    wanted = try_out(secured)[0]

    list(apply["apply_settings"](live, wanted, is_check=False))

    assert live.config()["maxmemory"] == str(64 * 1024 * 1024)
    assert [line for line in apply["apply_settings"](live, wanted, is_check=True) if line.startswith("maxmemory")] == []


def test_users_that_are_as_they_should_be_are_left_alone(secured):
    """Redis 7.0 tells the same rights in another order after each start; a deploy that changes nothing must say so."""
    secured.start()
    live = apply["Redis"](str(secured.folder / "socket"))
    live("AUTH", "admin", secured.passwords["admin"])

    found = [list(apply["apply_users"](live, secured.acl(), try_out(secured)[1], is_check=True)) for _ in range(3)]
    secured.kill()

    assert found == [[], [], []]


@pytest.mark.parametrize("where", ["users.acl", "redis.conf"])
def test_candidate_that_redis_would_not_start_with_is_refused_in_its_words(secured, where):
    """In place, it would keep Redis down at its next start."""
    if where == "users.acl":
        secured.acl_template += "user evil on +no-such-command\n"
    else:
        with (secured.folder / "redis.conf").open("a") as conf:
            conf.write("no-such-setting yes\n")

    with pytest.raises(apply["Refused"], match="no-such"):
        try_out(secured)


def test_older_redis_is_spared_a_word_that_keeps_it_from_starting():
    """Redis 7.0, Debian 12's, does not know `client|setinfo`; 7.2 and later want it."""
    line = "user relay on {passwords} +client|setname +client|setinfo +multi\n"

    old, new = (apply["rendered_acl"](line, version, {"relay": ["hash"]}) for version in ((7, 0), (7, 2)))

    assert old == "user relay on #hash +client|setname +multi\n"
    assert new == "user relay on #hash +client|setname +client|setinfo +multi\n"


def test_user_without_a_password_is_refused():
    """It would be let in with any."""
    with pytest.raises(apply["Refused"], match="redis_relay is missing"):
        apply["rendered_acl"]("user relay on {passwords} +ping\n", (8, 0), {"relay": []})
