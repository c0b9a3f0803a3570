"""Run profiles: on what machine, how fast, and on how many images; one YAML each under runners/."""

from __future__ import annotations

from typing import Literal

from robustboard import yamls
from robustboard.errors import UnknownNameError
from robustboard.fields import Count, EntryId, Flag, Line, Seed
from robustboard.runners.record import Subset
from robustboard.workspace import Workspace
from robustboard.yamls import Frozen


class Sample(Frozen):
    """How many images to measure, drawn with a seed and spread over the classes."""

    count: Count
    seed: Seed


class RunProfile(Frozen):
    """How to run, without a word on what.

    Precision and subset are part of a run's key, as they change numbers; the rest is not.
    """

    id: EntryId
    summary: Line
    device: Literal["cpu", "cuda", "auto"] = "auto"
    """auto: CUDA where there is a device, else the CPU."""
    precision: Literal["float32", "bfloat16"] = "float32"
    compile: Flag = False
    """Let torch.compile translate each network first: worth it for long attacks alone, as it takes about a
    minute. Left out where the result is not equal to 1e-5; the record says what was done."""
    batch_size: Count
    """Images at once; halved when memory does not suffice."""
    threads: Count | None = None
    """Threads of one operation on the CPU; absent: as many as PyTorch takes."""
    streaming: Flag = False
    """Fetch the shards of Hub datasets when they are read and drop them again, for sets that do not fit
    the disk; each is fetched twice for the first model."""
    subset: Sample | None = None
    """A part of each dataset; such results are marked partial and never ranked."""
    time_limit_seconds: Count | None = None
    """Wall time one cell may take; beyond it the cell fails and the next one begins."""

    def subset_of(self, images: int) -> Subset | None:
        """The part to measure of a set of so many images; None for all of them."""
        if self.subset is None or self.subset.count >= images:
            return None
        return Subset(count=self.subset.count, seed=self.subset.seed)


def load_profile(workspace: Workspace, name: str) -> RunProfile:
    """The profile runners/NAME.yaml.

    Raises UnknownNameError with the nearest names, ContentError with file and line.
    """
    paths = {path.stem: path for path in sorted(workspace.profiles.glob("*.yaml"))}
    if name not in paths:
        raise UnknownNameError("run profile", name, paths)
    return yamls.read(paths[name], RunProfile, workspace.show(paths[name]))
