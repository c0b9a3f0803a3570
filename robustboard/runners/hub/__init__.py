"""The Hugging Face Hub: what a repository holds, and files of one commit, checked byte by byte.

Nothing but named files is fetched, a file counts only when its SHA-256 is the expected one, and what lies
in the client's cache is not trusted either: a damaged file goes into quarantine and is fetched again,
once. No code from the Hub runs, and no token is sent unless an entry says that its repository is gated.
"""

from __future__ import annotations

from robustboard.runners.hub.client import (
    TRANSPORT,
    Call,
    Kind,
    Progress,
    asking,
    endpoint,
    one_line,
    unusual_endpoint,
)
from robustboard.runners.hub.files import commit_of, drop, fetch, fetch_unchecked, is_cached
from robustboard.runners.hub.folders import fetch_generator, fetch_model
from robustboard.runners.hub.resolving import resolve

__all__ = [
    "TRANSPORT",
    "Call",
    "Kind",
    "Progress",
    "asking",
    "commit_of",
    "drop",
    "endpoint",
    "fetch",
    "fetch_generator",
    "fetch_model",
    "fetch_unchecked",
    "is_cached",
    "one_line",
    "resolve",
    "unusual_endpoint",
]
