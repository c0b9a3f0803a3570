from __future__ import annotations

import base64
import hashlib

from robustboard.site.policy import digest, policy


def test_a_digest_is_the_base64_of_sha_256() -> None:
    """Against the definition in CSP Level 3."""
    expected = base64.b64encode(hashlib.sha256(b"alert(1)").digest()).decode()
    assert digest("alert(1)") == f"'sha256-{expected}'"


def test_the_policy_allows_own_files_and_what_it_names_and_nothing_else() -> None:
    rules = dict(rule.split(" ", 1) for rule in policy("one", "two").split("; "))
    assert rules == {
        "default-src": "'none'",
        "script-src": f"'self' {digest('one')}",
        "style-src": f"'self' {digest('two')}",
        "img-src": "'self' data:",
        "connect-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    assert "style-src 'self';" in policy("one")
