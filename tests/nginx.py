"""A real nginx with the kit's own configuration, on free ports of this host."""

import getpass
import subprocess
from pathlib import Path

import jinja2

from tests.kit import ROOT, wait_until
from tests.services import HOST, free_port, need

DOMAIN = "kit.example.com"
TEMPLATE = ROOT / "deploy" / "nginx" / "nginx.conf.j2"


def rendered(folder: Path, **variables) -> str:
    """Return the configuration as Ansible writes it, with every folder below this one."""
    values = {
        "kit_domain": DOMAIN,
        "kit_socket": folder / "web.sock",
        "kit_home": folder / "srv",
        "kit_config": folder / "etc",
        "kit_flower_port": 5555,
        "proxy_flower": True,
        "proxy_cache": folder / "cache",
        "proxy_has_ipv6": True,
        "proxy_hsts": "max-age=63072000",
        "proxy_signups_per_minute": 5,
        "proxy_logins_per_minute": 5,
        "proxy_requests_per_second": 20,
    }
    environment = jinja2.Environment(trim_blocks=True, keep_trailing_newline=True, undefined=jinja2.StrictUndefined)
    return environment.from_string(TEMPLATE.read_text()).render(values | variables)


class Nginx:
    """The server. Its folder holds what the host's /srv/kit and /etc/kit hold."""

    def __init__(self, folder: Path, *, app: str = "", **variables):
        self.folder, self.program = folder, need("nginx", "nginx")
        self.http_port, self.https_port = free_port(), free_port()
        for name in ("srv/static", "srv/acme", "etc/tls", "cache", "run"):
            (folder / name).mkdir(parents=True)
        self._make_certificate()
        text = rendered(folder, proxy_has_ipv6=False, **variables)
        text = text.replace("listen 80 ", f"listen {HOST}:{self.http_port} ")
        text = text.replace("listen 443 ", f"listen {HOST}:{self.https_port} ")
        text = text.replace("/usr/local/share/kit/pages/", f"{ROOT}/deploy/nginx/pages/")
        if app:  # host:port instead of the socket
            text = text.replace(f"unix:{folder}/web.sock", app)
        self.config = folder / "kit.conf"
        self.config.write_text(text)
        self.process = None

    def command(self, *arguments: str) -> list[str]:
        """Return the command line of the unit, with other places."""
        given = f"daemon off; pid {self.folder}/run/nginx.pid;"
        if getpass.getuser() == "root":
            given += " user root;"
        return [self.program, "-c", str(self.config), "-g", given, *arguments]

    def test(self) -> subprocess.CompletedProcess:
        """Let nginx read its configuration."""
        return subprocess.run(self.command("-t"), capture_output=True, text=True, timeout=20)

    def curl(self, path: str, *arguments: str, name: str = DOMAIN) -> subprocess.CompletedProcess:
        """Ask for a path of the site as a browser does; -i: the answer begins with its headers."""
        where = ("--resolve", f"{name}:{self.https_port}:{HOST}", f"https://{name}:{self.https_port}{path}")
        return subprocess.run(
            ["curl", "-skig", "--max-time", "20", *arguments, *where], capture_output=True, text=True, timeout=30
        )

    def __enter__(self):
        """Start it and wait until it answers."""
        self.process = subprocess.Popen(self.command())
        wait_until(lambda: self.curl("/", "-o", "/dev/null").returncode == 0, 10, "nginx answers")
        return self

    def __exit__(self, *error):
        """Stop it."""
        self.process.terminate()
        self.process.wait(10)

    def _make_certificate(self) -> None:
        key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
        file = str(self.folder / "etc/tls/site.pem")  # both in one
        command = [
            "openssl",
            "req",
            "-x509",
            *key,
            "-days",
            "2",
            "-subj",
            f"/CN={DOMAIN}",
            "-keyout",
            file,
            "-out",
            file,
        ]
        subprocess.run(command, check=True, capture_output=True, timeout=20)
