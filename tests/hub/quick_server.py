"""A user's server that is up at once: answers everything, ends on SIGINT. Any web server may stand here for a hub."""

import contextlib
import http.server
import os
import urllib.parse


class Answer(http.server.BaseHTTPRequestHandler):
    """Says yes."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *args: object) -> None: ...


address = urllib.parse.urlsplit(os.environ["JUPYTERHUB_SERVICE_URL"])
with contextlib.suppress(KeyboardInterrupt):
    http.server.ThreadingHTTPServer((address.hostname or "127.0.0.1", address.port or 0), Answer).serve_forever()
