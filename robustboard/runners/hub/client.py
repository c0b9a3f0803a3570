"""The one way to the Hub: what a request may be, how often, with or without a token, and its errors.

Every request that robustboard makes of the Hub goes through the client's own session, and inside
`asking` through the rules of this module: only reads unless writing was asked for, no token unless
the entry says that the repository is gated, a budget of requests a file, no answer of another
commit, and no name of a file that would lead out of the cache.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, Literal, Self
from urllib.parse import urlsplit

import huggingface_hub
from huggingface_hub import constants, errors, get_session
from huggingface_hub.utils import logging as client_logging

from robustboard.environment import USUAL_ENDPOINT, redact
from robustboard.errors import CellError

Kind = Literal["model", "dataset"]
Progress = Callable[[str, float], None]
"""Called with a stage in words and the fraction of it that is done, 0 to 1."""

TRANSPORT: type[Exception] = next(
    kind for kind in errors.HfHubHTTPError.__mro__[1:] if issubclass(kind, Exception)
)
"""What every error of the client's HTTP library is; which library that is depends on the client's version."""

PATIENCE = 10.0
"""Seconds that the Hub has to answer before it counts as out of reach."""

STALL = 60.0
"""Seconds without a byte, over all tries, after which a file counts as out of reach."""

LONGEST_WAIT = 60
"""Seconds that the Hub may ask us to wait before the next try."""

REQUESTS = 7
"""Requests that one file may take, damage and retries included."""

BYTES_A_REQUEST = 100 * 2**20
"""A larger file may take one more request for each so many bytes: cuts in it cost more."""

REMEMBERED = 60.0
"""Seconds that a Hub out of reach is not asked again."""

PORTS = {"http": 80, "https": 443}
READING = frozenset({"GET", "HEAD"})
_TAG = re.compile(r"[A-Za-z0-9._-]{1,128}")
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass
class Call:
    """One question to the Hub: what it may cost and do."""

    repo: str
    kind: Kind = "model"
    requests: int = REQUESTS
    """Requests left to the Hub itself; those to a store of files that it sends us on to are not counted."""
    commit: str | None = None
    """The only commit that may be answered."""
    token: bool = False
    writes: bool = False
    moved: float = field(default_factory=time.monotonic)
    """When the last byte came."""

    def before(self, request: Any) -> None:  # noqa: ANN401 - the HTTP library depends on the client's version
        """Let a request pass, or raise CellError."""
        own = _is_hub(request.url)
        if request.url.scheme != "https" and not own:
            raise CellError(
                "unavailable", f"{self.repo}: the Hub sends us on to a place that is not https://"
            )
        if request.method not in READING and not self.writes:
            raise CellError("unavailable", f"{self.repo}: a {request.method} was about to be sent unasked")
        if not self.token:
            request.headers.pop("authorization", None)
        if not own:
            return
        self.requests -= 1
        if self.requests < 0:
            raise CellError("unavailable", f"{self.repo}: the Hub at {endpoint()} fails again and again")
        if time.monotonic() - self.moved > STALL:
            raise CellError(
                "unavailable", f"{self.repo}: the Hub at {endpoint()} sent nothing for {STALL:.0f} s"
            )

    def after(self, response: Any) -> None:  # noqa: ANN401 - as above
        """Let an answer pass, or raise CellError; what it names becomes the name of a file here."""
        headers, place = response.headers, response.request.url
        named = ("ETag", "X-Linked-ETag") if _is_hub(place) and "/resolve/" in place.path else ()
        for name in named:
            tag = headers.get(name, "").removeprefix("W/").strip('"')
            if tag and (not _TAG.fullmatch(tag) or not tag.strip(".")):
                raise CellError("hash-mismatch", f"{self.repo}: the Hub's {name} is no hash")
        commit = headers.get("X-Repo-Commit")
        if commit is not None and not _COMMIT.fullmatch(commit):
            raise CellError("hash-mismatch", f"{self.repo}: the Hub's commit is no hash of 40 hex digits")
        if commit is not None and self.commit is not None and commit != self.commit:
            raise CellError(
                "hash-mismatch", f"{self.repo}: asked for commit {self.commit}, the Hub answered {commit}"
            )
        wait = headers.get("Retry-After", "")
        if wait.isdecimal() and int(wait) > LONGEST_WAIT:
            raise CellError("unavailable", f"{self.repo}: the Hub asks us to wait for {int(wait)} seconds")

    def progressed(self) -> None:
        """Note that bytes came."""
        self.moved = time.monotonic()


def _is_hub(address: Any) -> bool:  # noqa: ANN401 - an address of the HTTP library
    """Whether a request goes to the Hub itself, not to a store of files that it sends us on to."""
    hub = urlsplit(constants.ENDPOINT)
    usual = PORTS.get(hub.scheme)
    same = (hub.hostname, hub.port or usual) == (address.host, address.port or usual)
    return bool(same and address.scheme == hub.scheme)


_current: ContextVar[Call | None] = ContextVar("robustboard_hub_call", default=None)


def _before(request: Any) -> None:  # noqa: ANN401 - the HTTP library depends on the client's version
    call = _current.get()
    if call is not None:
        call.before(request)


def _after(response: Any) -> None:  # noqa: ANN401 - as above
    call = _current.get()
    if call is not None:
        call.after(response)


def _hook() -> None:
    """Have the client's session tell us of each request and answer, also one that it makes anew."""
    session = get_session()
    if _before in session.event_hooks["request"]:
        return
    kind = type(session)
    hooks: dict[str, list[Callable[..., Any]]] = {
        "request": [*session.event_hooks["request"], _before],
        "response": [*session.event_hooks["response"], _after],
    }
    huggingface_hub.set_client_factory(lambda: kind(event_hooks=hooks, follow_redirects=True, timeout=None))


@contextmanager
def asking(call: Call) -> Iterator[Call]:
    """Ask the Hub in here: quietly, by the rules of the call, with every failure as one line.

    Raises CellError: gated, missing, hash-mismatch, or unavailable where it would be worth another try.
    """
    _hook()
    token = _current.set(call)
    try:
        with _quiet(), _plain_errors(call):
            yield call
    except CellError as error:
        if error.kind == "unavailable":
            _failing.setdefault(call.repo, (time.monotonic(), error.reason))
        raise
    finally:
        _current.reset(token)


def endpoint() -> str:
    """The Hub that is asked; HF_ENDPOINT can name another one than the usual. Without credentials."""
    return redact(constants.ENDPOINT)


def unusual_endpoint() -> str | None:
    """The Hub that is asked where that is not the usual one."""
    return endpoint() if constants.ENDPOINT != USUAL_ENDPOINT else None


_reached: set[str] = set()
"""Hubs that have answered this process."""
_out_of_reach: dict[str, float] = {}
"""Hub → when it did not answer."""
_failing: dict[str, tuple[float, str]] = {}
"""Repository → when one of its files could not be had after all tries, and why: other cells do not wait
as long again."""


def forget_failures() -> None:
    """Ask again of what could not be had, as a new process does."""
    _out_of_reach.clear()
    _failing.clear()


def need_reach(name: str) -> None:
    """Raise CellError (unavailable) at once when there is no Hub: the client itself tries for 20 s a file."""
    if constants.HF_HUB_OFFLINE:
        raise CellError("unavailable", f"{name} is not in the cache, and HF_HUB_OFFLINE forbids to fetch it")
    since, reason = _failing.get(name, (float("-inf"), ""))
    if time.monotonic() - since < REMEMBERED:
        raise CellError("unavailable", reason)
    _failing.pop(name, None)
    if not _answers(constants.ENDPOINT):
        raise CellError(
            "unavailable",
            f"{name} is not in the cache, and the Hub at {endpoint()} is out of reach;"
            " run again on a machine with network",
        )


def _answers(address: str) -> bool:
    """Whether a Hub answers at all; asked once, and again some time after it did not."""
    if address in _reached:
        return True
    if time.monotonic() - _out_of_reach.get(address, float("-inf")) < REMEMBERED:
        return False
    # Outside of any call's rules: an error of the Hub's is an answer as well.
    token = _current.set(None)
    try:
        get_session().head(f"{address}/api/models", params={"limit": "1"}, timeout=PATIENCE)
    except (OSError, ValueError, TRANSPORT):
        _out_of_reach[address] = time.monotonic()
        return False
    finally:
        _current.reset(token)
    _reached.add(address)
    return True


@contextmanager
def _held(module: ModuleType, values: dict[str, object]) -> Iterator[None]:
    """Set constants of a module for the time of a block; it reads the environment only once."""
    before = {name: getattr(module, name) for name in values}
    try:
        for name, value in values.items():
            setattr(module, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(module, name, value)


@contextmanager
def _quiet() -> Iterator[None]:
    """No telemetry, no bars and no log lines of the client: progress and errors are told by us."""
    told = client_logging.get_verbosity()
    client_logging.set_verbosity(logging.CRITICAL)
    try:
        with _held(constants, {"HF_HUB_DISABLE_TELEMETRY": True, "HF_HUB_DISABLE_PROGRESS_BARS": True}):
            yield
    finally:
        client_logging.set_verbosity(told)


@contextmanager
def _plain_errors(call: Call) -> Iterator[None]:
    """Turn the client's errors into one line each."""
    repo = call.repo
    try:
        yield
    except CellError:
        raise
    except errors.GatedRepoError as error:
        raise _gated(call) from error
    except errors.RepositoryNotFoundError as error:
        # To strangers the Hub does not tell a closed repository from one that is not there.
        raise (
            _gated(call) if call.token else CellError("missing", f"the Hub has no public repository {repo}")
        ) from error
    except errors.RevisionNotFoundError as error:
        raise CellError("missing", f"{repo} has no such commit: it was deleted, or never there") from error
    except errors.LocalEntryNotFoundError as error:
        raise _unavailable(repo, error.__cause__ or error) from error
    except errors.EntryNotFoundError as error:
        raise CellError("missing", f"{repo}: {one_line(error)}") from error
    except (OSError, ValueError, TRANSPORT) as error:
        raise _unavailable(repo, error) from error


def _gated(call: Call) -> CellError:
    place = f"{endpoint()}/{'datasets/' if call.kind == 'dataset' else ''}{call.repo}"
    mend = "log in with `hf auth login`" if call.token else "robustboard reads it without a token"
    if call.token:
        return CellError("gated", f"{call.repo} is gated: accept its terms at {place}, then {mend}")
    return CellError("gated", f"{call.repo} is gated: terms must be accepted at {place}, and {mend}")


def _unavailable(repo: str, error: BaseException) -> CellError:
    told = one_line(error)
    response = getattr(error, "response", None)
    status = getattr(response, "status_code", None)
    if isinstance(status, int):
        told = f"the Hub answered {status}"
    return CellError("unavailable", f"{repo} could not be fetched: {told}")


def one_line(error: BaseException) -> str:
    """What an error of the client says, on one line of at most 200 characters, without secrets."""
    return redact(" ".join(str(error).split()))[:200] or type(error).__name__


def bar(told: Progress | None, stage: str, call: Call) -> type:
    """What the client takes for a progress bar: it tells us of bytes."""

    class Bar:
        """As much of tqdm as the client uses."""

        def __init__(self, *_: object, total: float | None = None, initial: float = 0, **__: object) -> None:
            self.total = total
            self.n = initial

        def update(self, count: float = 1) -> None:
            """So many more bytes are here."""
            self.n += count
            call.progressed()
            if told is not None and self.total:
                told(stage, min(self.n / self.total, 1.0))

        def close(self) -> None:
            """Nothing to close."""

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            return None

    return Bar
