"""The smoke test of a deploy reaches a worker of its own release, whoever else is there."""

import json

from tests.kit import PYTHON


def smoke(kit, release: str) -> dict:
    """Run the smoke test as `kit` does, and return its answer."""
    command = [PYTHON, "manage.py", "deploy", "smoke", "--limit-s", "40"]
    asking = kit.run("smoke", command, env={"RELEASE": release})
    assert asking.wait(60) == 0, asking.tail()
    return json.loads(asking.output.splitlines()[-1])


def test_smoke_test_passes_in_a_worker_of_its_release_beside_another(kit):
    kit.start("relay")
    kit.start("worker", env={"RELEASE": "old"})
    kit.start("worker", env={"RELEASE": "new"})

    assert smoke(kit, "new") == {"fault": ""}
