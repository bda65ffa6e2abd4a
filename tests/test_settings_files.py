"""What the processes are told on a host: /etc/kit/*.env and the operator's own secrets."""

import json

import jinja2
import pytest

from tests.kit import ROOT

pytestmark = pytest.mark.rung("sqlite+filesystem")  # nothing in it depends on database or broker


def rendered(name: str, **variables) -> list[str]:
    """Return the lines of a template, made as Ansible makes them, without comments."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(ROOT / "deploy/app"), trim_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.filters["to_json"] = json.dumps
    text = environment.get_template(name).render(ansible_managed="managed", kit_secrets="/etc/kit/secrets", **variables)
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def test_operators_numbers_go_before_those_of_the_deploy():
    own = {"JOBS_DRAIN_S": 600, "WORKER_CONCURRENCY": 2, "DATABASE_URL": "postgresql://kit_worker@x/kit"}
    operators = {"JOBS_DRAIN_S": 300, "DATABASE_URL": "postgresql://else", "LOG_LEVEL": "DEBUG"}

    lines = rendered("role.env.j2", item={"key": "worker", "value": own}, kit_settings=operators)

    assert lines == ['JOBS_DRAIN_S="300"', 'WORKER_CONCURRENCY="2"', 'DATABASE_URL="postgresql://kit_worker@x/kit"']
