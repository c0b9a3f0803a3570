"""The look at the site over HTTP: this machine alone, nothing listed, a page of the site for the rest."""

from __future__ import annotations

import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from robustboard.errors import UserError
from robustboard.site.serve import server


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """A served folder."""
    (tmp_path / "m").mkdir()
    (tmp_path / "index.html").write_text("<p>top</p>")
    (tmp_path / "404.html").write_text("<p>no such page</p>")
    (tmp_path / "m" / "a.js").write_text("1")
    with server(tmp_path, 0) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


def test_files_come_with_their_kind_and_are_never_cached(address: str) -> None:
    with urllib.request.urlopen(f"{address}/m/a.js") as found:
        assert found.headers["Content-Type"].startswith("text/javascript")
        assert found.headers["Cache-Control"] == "no-store"
    with urllib.request.urlopen(f"{address}/") as found:
        assert found.read() == b"<p>top</p>"


@pytest.mark.parametrize("path", ["/nothing.html", "/m/", "/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd"])
def test_what_is_not_there_is_the_sites_own_page(address: str, path: str) -> None:
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(f"{address}{path}")
    assert caught.value.code == 404
    assert caught.value.read() == b"<p>no such page</p>"
    caught.value.close()


def test_only_this_machine_can_look(tmp_path: Path) -> None:
    with server(tmp_path, 0) as running:
        assert running.server_address[0] == "127.0.0.1"
        with pytest.raises(UserError, match=f"expected a free --port, got {running.server_port}"):
            server(tmp_path, running.server_port)
