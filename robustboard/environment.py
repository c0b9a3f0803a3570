"""The environment of the process: what it may not say, and secrets that no output may show."""

from __future__ import annotations

import io
import os
import re
import sys
from pathlib import Path
from typing import Any, TextIO

from robustboard.errors import UserError

UNSAFE_VARIABLE = "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"

USUAL_ENDPOINT = "https://huggingface.co"

SECRET_VARIABLES = (
    "HF_TOKEN",
    "HUGGING_FACE_HUB_TOKEN",
    "HUGGINGFACE_HUB_TOKEN",
    "GITHUB_TOKEN",
    "GH_TOKEN",
)
"""Variables whose values are secrets, whatever they look like."""

SHORTEST = 6
"""Characters of a secret; a shorter one would blot out ordinary words."""

STARS = "***"
_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\bhf_[A-Za-z0-9]{12,}"), f"hf_{STARS}"),
    (re.compile(r"\b(gh[pousr]_|github_pat_)[A-Za-z0-9_]{12,}"), rf"\1{STARS}"),
    (re.compile(r"(?i)\b(bearer|basic)(\s+|%20)[A-Za-z0-9._~+/=-]{6,}"), rf"\1 {STARS}"),
    (re.compile(r"(?i)\b([a-z][a-z0-9+.-]{1,19}://)[^\s/@'\"<>]{1,500}@"), rf"\1{STARS}@"),
    (
        re.compile(
            r"(?i)([?&;](?:x-amz-(?:signature|credential|security-token)|signature|key-pair-id|policy|"
            r"access_token|token|sig)=)[^&;\s'\"<>]+"
        ),
        rf"\1{STARS}",
    ),
)


def refuse_unsafe_environment() -> None:
    """Raise UserError where the environment makes torch run code from weights files."""
    if os.environ.get(UNSAFE_VARIABLE):
        raise UserError(
            f"{UNSAFE_VARIABLE} is set: expected it unset, since it lets weights files run code;"
            f" run `unset {UNSAFE_VARIABLE}` first"
        )


def _secrets() -> list[str]:
    """Values that must not be shown: of SECRET_VARIABLES and of the file that `hf auth login` writes."""
    found = [os.environ.get(name, "") for name in SECRET_VARIABLES]
    home = os.environ.get("HF_HOME") or str(Path("~/.cache/huggingface").expanduser())
    try:
        path = Path(os.environ.get("HF_TOKEN_PATH") or Path(home) / "token")
        found.append(path.read_text(encoding="utf-8", errors="replace").strip())
    except (OSError, ValueError):
        pass
    return sorted({each for each in found if len(each) >= SHORTEST}, key=len, reverse=True)


_known: list[str] | None = None


def forget_secrets() -> None:
    """Look at the environment again the next time; for tests that change it."""
    global _known  # noqa: PLW0603 - read once a process, as it stands in every line of output
    _known = None


def unusual_endpoint() -> str | None:
    """The Hub that HF_ENDPOINT names where that is not the usual one, without credentials."""
    named = os.environ.get("HF_ENDPOINT", "").rstrip("/")
    return redact(named) if named not in ("", USUAL_ENDPOINT) else None


def redact(text: str) -> str:
    """The text without tokens, Bearer headers, URL credentials and signatures."""
    global _known  # noqa: PLW0603 - as above
    if _known is None:
        _known = _secrets()
    for secret in _known:
        text = text.replace(secret, STARS)
    for pattern, instead in _PATTERNS:
        text = pattern.sub(instead, text)
    return text


class _Redacted(io.TextIOBase):
    """A stream that lets no secret pass; everything else is the stream's own."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self.stream = stream

    def write(self, text: str) -> int:
        """Write the text without secrets; its length as it was given."""
        self.stream.write(redact(text))
        return len(text)

    def writable(self) -> bool:
        """It is there to be written to."""
        return True

    def flush(self) -> None:
        """Flush the stream."""
        self.stream.flush()

    def fileno(self) -> int:
        """The stream's descriptor."""
        return self.stream.fileno()

    def isatty(self) -> bool:
        """Whether the stream is a terminal."""
        return self.stream.isatty()

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the stream has
        return getattr(self.stream, name)


def redact_streams() -> None:
    """Let nothing that this process prints, logs or dies with show a secret."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if not isinstance(stream, _Redacted):
            setattr(sys, name, _Redacted(stream))
