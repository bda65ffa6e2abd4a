"""The roles and rights that a deploy writes into PostgreSQL: a second run finds nothing to do."""

import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.kit import ROOT
from tests.services import Postgresql

pytestmark = pytest.mark.rung("postgresql+filesystem")

TABLES = "SET ROLE kit_owner; CREATE TABLE things (id bigserial PRIMARY KEY, words text, more jsonb);"
TRY = "SET ROLE kit_web; INSERT INTO things (words) VALUES ('one'); DELETE FROM things;"


@pytest.fixture
def psql():
    """Give a way to run SQL in a cluster of its own."""
    with tempfile.TemporaryDirectory(prefix="kit-rights-") as folder:
        Path(folder).chmod(0o711)
        (base := Path(folder) / "postgresql").mkdir()
        server = Postgresql(base).start()

        def run(database: str, sql: str) -> str:
            url = server.url.rpartition("/")[0] + f"/{database}"
            command = [str(Path(server.binary()).parent / "psql"), "-XqAt", "--set=ON_ERROR_STOP=1", url]
            done = subprocess.run(command, input=sql, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            return done.stdout.strip()

        yield run
        server.stop()


def test_rights_are_given_once_and_suffice_whatever_is_there(psql):
    """Tables with what PostgreSQL keeps beside them, made before and after the rights."""
    rights = (ROOT / "deploy/postgresql/rights.sql").read_text()
    psql("postgres", (ROOT / "deploy/postgresql/database.sql").read_text())
    psql("kit", TABLES)

    psql("kit", rights)

    told = psql("kit", rights.replace("\\gexec", ";"))
    assert told == ""
    psql("kit", TRY)
