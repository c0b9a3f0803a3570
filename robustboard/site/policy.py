"""The Content-Security-Policy of every page: no other host, and nothing inline but what its hash names."""

from __future__ import annotations

import base64
import hashlib


def digest(text: str) -> str:
    """`'sha256-…'` of an inline script or style, as a policy names it."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode('ascii')}'"


def policy(script: str, style: str = "") -> str:
    """The policy of a page with one inline script, and one inline style where it has any."""
    styles = f"'self' {digest(style)}" if style else "'self'"
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src 'self' {digest(script)}",
            f"style-src {styles}",
            "img-src 'self' data:",
            "connect-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
