"""The rules for every request to the Hub, on requests and answers as the client's HTTP library has them."""

from __future__ import annotations

import time
from typing import Any

import pytest
from huggingface_hub import constants, get_session

from robustboard.errors import CellError
from robustboard.runners.hub import client
from robustboard.runners.hub.client import Call, asking, need_reach

A, B = "a" * 40, "b" * 40
HUB = "https://hub.example"
FILE = f"{HUB}/org/net/resolve/{A}/model.safetensors"


@pytest.fixture(autouse=True)
def hub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", HUB)


def request(method: str = "GET", address: str = FILE, **headers: str) -> Any:
    return get_session().build_request(method, address, headers=headers)


def answer(*, address: str = FILE, **headers: str) -> Any:
    """An answer of the library's own class, without asking anybody."""
    asked = request("GET", address)
    kind = type(get_session())
    transport_module = __import__(kind.__module__.split(".")[0])
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return transport_module.Response(200, headers=named, request=asked)


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_only_reads_pass_unless_writing_was_asked_for(method: str) -> None:
    with pytest.raises(CellError, match=f"a {method} was about to be sent unasked"):
        Call("org/net").before(request(method))
    Call("org/net", writes=True).before(request(method))


def test_a_token_goes_only_where_the_entry_says_gated() -> None:
    for token in (False, True):
        asked = request(Authorization="Bearer hf_secret")
        Call("org/net", token=token).before(asked)
        assert ("authorization" in asked.headers) == token


def test_seven_requests_are_a_file_s_budget_and_those_to_a_store_of_files_do_not_count() -> None:
    call = Call("org/net")
    for _ in range(client.REQUESTS):
        call.before(request())
        call.before(request(address="https://cdn.example/blob"))
    with pytest.raises(CellError, match="fails again and again") as caught:
        call.before(request())
    assert caught.value.kind == "unavailable"


@pytest.mark.parametrize(
    ("address", "counted"),
    [
        ("https://hub.example/api", True),
        ("https://hub.example:443/api", True),
        ("https://hub.example:8443/api", False),
        ("https://other.example/api", False),
    ],
)
def test_the_hub_is_told_by_scheme_host_and_port(address: str, counted: bool) -> None:  # noqa: FBT001 - a table
    call = Call("org/net")
    call.before(request(address=address))
    assert (call.requests < client.REQUESTS) == counted


def test_other_places_are_asked_by_https_alone() -> None:
    for address in ("http://hub.example/x", "http://169.254.169.254/latest", "http://other.example/x"):
        with pytest.raises(CellError, match="a place that is not https://"):
            Call("org/net").before(request(address=address))


def test_a_file_that_stalls_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    call = Call("org/net")
    call.before(request())
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + client.STALL + 1)
    with pytest.raises(CellError, match="sent nothing for 60 s"):
        call.before(request())
    call.progressed()
    call.before(request())


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        ({"X_Repo_Commit": B}, f"asked for commit {A}, the Hub answered {B}"),
        ({"X_Repo_Commit": "main"}, "no hash of 40 hex digits"),
        ({"X_Repo_Commit": f"../{A}"}, "no hash of 40 hex digits"),
        ({"ETag": '"../../x"'}, "the Hub's ETag is no hash"),
        ({"ETag": 'W/"/x"'}, "the Hub's ETag is no hash"),
        ({"ETag": '".."'}, "the Hub's ETag is no hash"),
        ({"X_Linked_ETag": '"a/b"'}, "the Hub's X-Linked-ETag is no hash"),
        ({"Retry_After": "3600"}, "asks us to wait for 3600 seconds"),
    ],
)
def test_answers_that_lead_elsewhere_are_refused(headers: dict[str, str], words: str) -> None:
    with pytest.raises(CellError, match=words):
        Call("org/net", commit=A).after(answer(**headers))


def test_ordinary_answers_pass() -> None:
    """Hashes of both kinds; the API's own ETags, which name no file, may be anything."""
    call = Call("org/net", commit=A)
    call.after(answer(X_Repo_Commit=A, ETag=f'"{"0" * 64}"', Retry_After="3"))
    call.after(answer(X_Repo_Commit=A, ETag=f'W/"{"0" * 40}"', Retry_After="Wed, 21 Oct 2026 07:28:00 GMT"))
    call.after(answer(address=f"{HUB}/api/models/org/net", ETag='W/"23b-sA8R/3yxq+Zr"'))
    call.after(answer(address="https://cdn.example/x", ETag='"a/b=="'))


def test_offline_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(CellError, match="HF_HUB_OFFLINE forbids to fetch it") as caught:
        need_reach("org/net")
    assert caught.value.kind == "unavailable"


def test_a_hub_out_of_reach_is_asked_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def fails(address: str, **_: object) -> None:
        asked.append(address)
        raise OSError("no route")

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", "https://down.example")
    monkeypatch.setattr(get_session(), "head", fails)
    for _ in range(3):
        with pytest.raises(CellError, match=r"the Hub at https://down\.example is out of reach"):
            need_reach("org/net")
    assert len(asked) == 1
    client._out_of_reach["https://down.example"] -= client.REMEMBERED
    with pytest.raises(CellError, match="out of reach"):
        need_reach("org/net")
    assert len(asked) == 2


def test_a_repository_that_fails_is_left_alone_for_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next cells are told why at once; another repository, and a minute later this one, are asked."""
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(client, "_answers", lambda _: True)
    with pytest.raises(CellError, match="cable"), asking(Call("org/failing")):
        raise OSError("cable")
    for _ in range(2):
        with pytest.raises(CellError, match="org/failing could not be fetched: cable"):
            need_reach("org/failing")
    need_reach("org/other")
    since, reason = client._failing["org/failing"]
    client._failing["org/failing"] = (since - client.REMEMBERED, reason)
    need_reach("org/failing")
    client.forget_failures()


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (OSError("cable"), "unavailable"),
        (ValueError("odd"), "unavailable"),
        (CellError("gated", "x"), "gated"),
    ],
)
def test_whatever_the_client_raises_is_one_kind_of_failure(error: Exception, kind: str) -> None:
    with pytest.raises(CellError) as caught, asking(Call("org/net")):
        raise error
    assert caught.value.kind == kind
