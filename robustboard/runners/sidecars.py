"""What lies beside weights that were trained here: JSON that is written last, and makes them count."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from robustboard import durable, jsons
from robustboard.errors import StoreError
from robustboard.workspace import Workspace
from robustboard.yamls import Frozen


class AnySidecar(Frozen):
    """What every sidecar says."""

    recipe_digest: str
    """The file's own stem."""


S = TypeVar("S", bound=AnySidecar)


def read_sidecar(path: Path, kind: type[S], workspace: Workspace) -> S:
    """The sidecar at a path. Raises StoreError where it is damaged or of another recipe."""
    name = workspace.show(path)
    try:
        found = kind.model_validate(jsons.strict(path.read_bytes(), name))
    except ValidationError as error:
        raise StoreError(f"{name}: damaged: delete it to train again") from error
    if found.recipe_digest != path.stem:
        raise StoreError(f"{name}: belongs to another recipe: delete it to train again")
    return found


def write_sidecar(path: Path, sidecar: AnySidecar) -> None:
    """Write a sidecar; from now on the weights beside it count."""
    durable.write(path, jsons.canonical(sidecar.model_dump(mode="json")))
