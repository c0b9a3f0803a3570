"""A look at the built site over HTTP, on this machine alone."""

from __future__ import annotations

from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from robustboard.errors import UserError

HOST = "127.0.0.1"
DEFAULT_PORT = 8000


class _Handler(SimpleHTTPRequestHandler):
    """Files of one folder, never cached, with the site's own page for what is not there."""

    extensions_map = {  # noqa: RUF012 - the base class has it as a class attribute
        **SimpleHTTPRequestHandler.extensions_map,
        ".js": "text/javascript; charset=utf-8",
        ".html": "text/html; charset=utf-8",
        ".css": "text/css; charset=utf-8",
        ".svg": "image/svg+xml",
        ".xml": "application/xml",
        ".parquet": "application/octet-stream",
    }

    def end_headers(self) -> None:
        """No copy of a page outlives the next build."""
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        super().end_headers()

    def list_directory(self, path: object) -> None:
        """A folder without an index is no page."""
        del path
        self.send_error(HTTPStatus.NOT_FOUND)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """The site's page for missing addresses, as web hosts show it."""
        page = Path(self.directory) / "404.html"
        if code != HTTPStatus.NOT_FOUND or not page.is_file():
            super().send_error(code, message, explain)
            return
        data = page.read_bytes()
        self.send_response(HTTPStatus.NOT_FOUND)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        """Say nothing of each request."""


def server(folder: Path, port: int = DEFAULT_PORT) -> ThreadingHTTPServer:
    """A server of a folder on the loopback address; port 0 takes any free one.

    Raises UserError when the port is taken or may not be used.
    """
    handler = partial(_Handler, directory=str(folder))
    try:
        return ThreadingHTTPServer((HOST, port), handler)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"expected a free --port, got {port}: {reason}") from error
