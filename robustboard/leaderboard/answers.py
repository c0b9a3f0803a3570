"""Where predictions behind contributed results were published: one YAML each in leaderboard/predictions/."""

from __future__ import annotations

from robustboard.errors import ContentError
from robustboard.fields import Commit, Day, Line, RepoId
from robustboard.registry.folders import Folder, read_folder
from robustboard.workspace import Workspace
from robustboard.yamls import Frozen


class PublishedAnswers(Frozen):
    """A Hub dataset of predictions at one commit."""

    id: str
    repo: RepoId
    revision: Commit
    by: Line
    added: Day


def survey_answers(workspace: Workspace) -> Folder[PublishedAnswers]:
    """Every such file and its faults; an absent folder is an empty one."""
    place = workspace.content / "leaderboard" / "predictions"
    return read_folder(workspace, place, lambda _: PublishedAnswers)


def load_answers(workspace: Workspace) -> dict[str, PublishedAnswers]:
    """All by id. Raises ContentError with the faults of all files."""
    found = survey_answers(workspace)
    if found.problems:
        raise ContentError(found.problems)
    return {key: item.entry for key, item in sorted(found.entries.items())}
