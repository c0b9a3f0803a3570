"""Display names that look alike."""

from __future__ import annotations

import unicodedata

# Code points of other scripts, and of Latin letters apart, that common fonts draw like the letter before
# them (the part of UTS 39's table that names can be expected to hold).
_LOOK_ALIKES = {
    "3": "0499",
    "A": "0391 0410 13aa",
    "a": "0251 03b1 0430",
    "B": "0392 0412 13f4",
    "b": "03b2 0431 0432",
    "C": "0421 13df",
    "c": "03f2 0441 1d04",
    "D": "13a0",
    "d": "0111 0501",
    "E": "0395 0415 13ac",
    "e": "03b5 0435 0451",
    "f": "0192 0493",
    "g": "0261 0581",
    "H": "0397 041d 13bb",
    "h": "0127 043d 04a3 04bb 0570",
    "I": "0399 0406",
    "i": "0131 0269 03b9 0456",
    "J": "0408 13ab",
    "j": "0237 03f3 0458 0575",
    "K": "039a 041a 13e6",
    "k": "03ba 043a 049b",
    "L": "053c 13de",
    "l": "0142 04cf",
    "M": "039c 041c 13b7",
    "m": "043c",
    "N": "039d",
    "n": "03b7 043f 0576 0578",
    "O": "039f 041e 0555",
    "o": "00f8 03bf 03c3 043e 0585 1d0f",
    "P": "03a1 0420 13e2",
    "p": "03c1 0440",
    "q": "051b 0563 0566",
    "R": "13d2",
    "r": "0433",
    "S": "0405 054f 13da",
    "s": "0455",
    "T": "03a4 0422 13a2",
    "t": "0167 03c4 0442",
    "U": "054d",
    "u": "028b 03c5 057d",
    "V": "13d9",
    "v": "03bd 1d20",
    "W": "0460 051c 13b3",
    "w": "03c9 051d 0561 1d21",
    "X": "03a7 0425",
    "x": "03c7 0445",
    "Y": "03a5 0423 04ae",
    "y": "03b3 0443 04af 04b1",
    "Z": "0396 13c3",
    "z": "1d22",
}
_LATIN = {int(code, 16): letter for letter, codes in _LOOK_ALIKES.items() for code in codes.split()}
_ALIKE = str.maketrans("01i|", "olll")


def skeleton(name: str) -> str:
    """What is left of a name when everything that the eye passes over is gone.

    Two names with one skeleton are too alike to stand on one board. Compatibility forms, accents and
    case are dropped; spaces, dashes and underscores are one thing; look-alike letters become Latin;
    0 is o, and 1, i and | are l.
    """
    text = unicodedata.normalize("NFKC", name).translate(_LATIN)
    text = unicodedata.normalize("NFKD", text.casefold()).translate(_LATIN)
    kept = "".join(_reduced(character) for character in text)
    return "-".join(part for part in kept.split("-") if part).translate(_ALIKE).replace("rn", "m")


def _reduced(character: str) -> str:
    category = unicodedata.category(character)
    if category in ("Zs", "Pd") or character == "_":
        return "-"
    return "" if category in ("Mn", "Me", "Cf") else character
