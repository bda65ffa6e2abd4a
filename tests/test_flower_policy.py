"""nginx lets Flower's own inline scripts run, and no other."""

import base64
import hashlib
import re
from importlib.resources import files

import tornado.template

from tests.kit import ROOT


def test_hashes_are_of_the_scripts_in_flowers_pages():
    allowed = re.findall(r"'sha256-([^']+)'", (ROOT / "deploy" / "nginx" / "nginx.conf.j2").read_text())
    folder = files("flower") / "templates"
    inline = [
        script
        for page in folder.iterdir()
        for script in re.findall(r"<script(?![^>]*src=)[^>]*>(.*?)</script>", page.read_text(), re.DOTALL)
    ]

    wanted = {
        base64.b64encode(hashlib.sha256(tornado.template.Template(script).generate(autorefresh=on)).digest()).decode()
        for script in inline
        for on in (0, 1)
    }

    assert wanted == set(allowed)
