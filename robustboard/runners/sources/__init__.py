"""Where images come from: one module a kind of source."""

from __future__ import annotations

from robustboard.runners.sources.digits import read_digits
from robustboard.runners.sources.folder import read_folder
from robustboard.runners.sources.hub import read_hub
from robustboard.runners.sources.idx import read_idx
from robustboard.runners.sources.npz import read_npz
from robustboard.runners.sources.parquet import read_parquet
from robustboard.runners.sources.stored import Source

SOURCES: dict[str, Source] = {
    "hub": read_hub,
    "folder": read_folder,
    "parquet": read_parquet,
    "idx": read_idx,
    "npz": read_npz,
    "sklearn-digits": read_digits,
}
"""Kind of a DataSource → the function that reads it."""
