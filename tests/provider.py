"""Providers of HTTP APIs for tests: real servers on this host that can be slow, full, down or careless."""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

from tests.services import HOST


class Reply(NamedTuple):
    """What a provider answers; status 0 drops the connection without a word."""

    status: int
    body: dict | None = None
    headers: dict = {}


class Provider:
    """A server with a thread for each request; what it answers is told by a subclass's `post` and `get`."""

    def __init__(self):
        self.lock = Lock()
        provider = self

        class Handler(BaseHTTPRequestHandler):
            """Hand each request over and send the reply."""

            def do_POST(self):
                """Receive what is to be done."""
                content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                self.answer(provider.post(self.headers.get("Idempotency-Key", ""), json.loads(content)))

            def do_GET(self):
                """Receive a question."""
                self.answer(provider.get(parse_qs(urlsplit(self.path).query).get("idempotency_key", [""])[0]))

            def answer(self, reply: Reply) -> None:
                """Send a reply, unless the other side is gone."""
                self.close_connection = True
                if not reply.status:
                    return
                try:
                    self.send_response(reply.status)
                    for name, value in reply.headers.items():
                        self.send_header(name, value)
                    self.end_headers()
                    self.wfile.write(json.dumps(reply.body or {}).encode())
                except ConnectionError:
                    return  # a killed worker does not listen

            def log_message(self, *arguments):
                """Print nothing."""

        class Server(ThreadingHTTPServer):
            """Room for everybody who calls at once."""

            request_queue_size = 128

        self._server = Server((HOST, 0), Handler)
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})

    @property
    def url(self) -> str:
        """Return its address."""
        return f"http://{HOST}:{self._server.server_port}"

    def post(self, key: str, body: dict) -> Reply:
        """Do what is asked for."""
        raise NotImplementedError

    def get(self, key: str) -> Reply:
        """Answer a question."""
        return Reply(404)

    def __enter__(self) -> "Provider":
        self._thread.start()
        return self

    def __exit__(self, *exception) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
