"""Meets bombs in a process of its own, whose memory is measured: `bomb_driver.py safe|careless FOLDER`.

Prints one JSON line: the most memory it ever had (MB), and of each file what became of it, memory, seconds.
"""

from __future__ import annotations

import io
import json
import sys
import time
from pathlib import Path
from typing import Any


def safe(path: Path, scratch: Path) -> str:
    """As a run meets a file: `ok` or the refusal."""
    from robustboard.errors import CellError
    from robustboard.registry.entries import HubData
    from robustboard.runners.sources.cards import card_classes
    from robustboard.runners.sources.decoding import decode, strict_pillow
    from robustboard.runners.sources.shards import Opening, open_shard

    try:
        if path.suffix == ".image":
            with strict_pillow():
                decode(path.read_bytes(), path.stem, 3)
        elif path.suffix == ".card":
            return f"classes: {card_classes(path.read_bytes(), 'label', None)}"
        else:
            source = HubData.model_validate(
                {"kind": "hub", "repo": "org/set", "revision": "a" * 40, "split": "test"}
                | {"image_column": "image", "label_column": "label"}
            )
            shard = open_shard(Opening(path, path.name, source, 60, scratch))
            for row in range(len(shard.labels)):
                shard.images.read(row)
            shard.close()
    except CellError as error:
        return f"{error.kind}: {error.reason}"
    return "ok"


def careless(path: Path, _scratch: Path) -> str:
    """As Pillow, zipfile, tarfile and pyarrow read it when nobody asks how much it is."""
    import tarfile
    import warnings
    import zipfile

    import pyarrow.parquet as pq
    from PIL import Image

    warnings.simplefilter("ignore")
    try:
        if path.suffix == ".image":
            Image.open(io.BytesIO(path.read_bytes())).convert("RGB").load()
        elif path.suffix == ".zip":
            with zipfile.ZipFile(path) as archive:
                held = [archive.read(name) for name in archive.namelist()]
                return f"{sum(map(len, held))} bytes"
        elif path.suffix == ".gz":
            with tarfile.open(path) as archive:
                archive.getmembers()
        elif path.suffix == ".parquet":
            return f"{len(pq.read_table(path).to_pylist())} rows"
    except Exception as error:  # noqa: BLE001 - what becomes of it is told
        return type(error).__name__
    return "ok"


def main() -> None:
    """Meet every file of the folder."""
    how, folder = sys.argv[1], Path(sys.argv[2])
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    meet = safe if how == "safe" else careless
    found: dict[str, Any] = {}
    for path in sorted(folder.iterdir()):
        started = time.perf_counter()
        told = meet(path, folder.with_name("scratch"))
        found[path.name] = [told, peak(), round(time.perf_counter() - started, 2)]
    print(json.dumps({"peak": peak(), "files": found}))  # noqa: T201 - the answer


def peak() -> int:
    """The most memory so far, in MB: getrusage would count what the parent had when it started us."""
    text = Path("/proc/self/status").read_text()
    return int(text.split("VmHWM:")[1].split()[0]) // 1024


if __name__ == "__main__":
    main()
