"""A user's server that is up at once: answers everything, ends on SIGINT. Any web server may stand here for a hub.

Python's own takes three times as long to start, and hubs under test start hundreds of these.
"""

import contextlib
import os
import socketserver


class Answer(socketserver.StreamRequestHandler):
    """Says yes."""

    def handle(self) -> None:
        while self.rfile.readline().strip():
            pass
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 64


host, _, port = os.environ["JUPYTERHUB_SERVICE_URL"].split("/")[2].partition(":")
with contextlib.suppress(KeyboardInterrupt):
    Server((host, int(port)), Answer).serve_forever()
