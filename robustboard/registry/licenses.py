"""Names of licences: expressions of SPDX identifiers, or plain words where SPDX has none."""

from __future__ import annotations

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

OTHER = ("unknown", "other: ")
"""What a licence that is no SPDX expression says, or starts with: `unknown`, or `other: ` and words."""
FAMILIAR = {
    "cc by 4.0": "CC-BY-4.0",
    "cc by-sa 4.0": "CC-BY-SA-4.0",
    "cc0 1.0": "CC0-1.0",
    "apache 2.0": "Apache-2.0",
    "bsd": "BSD-3-Clause",
    "gpl-3.0": "GPL-3.0-only",
    "gpl-2.0": "GPL-2.0-only",
    "agpl-3.0": "AGPL-3.0-only",
    "lgpl-3.0": "LGPL-3.0-only",
}
"""Names in use elsewhere → SPDX's."""


def spdx(text: str) -> str | None:
    """The SPDX expression that a text is, in SPDX's own spelling; None where it is none."""
    try:
        return str(canonicalize_license_expression(FAMILIAR.get(text.casefold(), text)))
    except InvalidLicenseExpression:
        return None


def complaint(text: str) -> str | None:
    """What is wrong with the licence of an entry; None where nothing is."""
    if text == OTHER[0] or text.startswith(OTHER[1]):
        return None
    found = spdx(text)
    if found == text:
        return None
    hint = f" (did you mean {found}?)" if found else ""
    return f"an SPDX licence expression such as Apache-2.0, unknown, or `other: ` and words{hint}"
