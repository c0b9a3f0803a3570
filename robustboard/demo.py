"""The command `robustboard demo`: small classifiers trained and measured on the spot, and their site."""

from __future__ import annotations

from dataclasses import replace

from robustboard.analyse_cli import show_scores
from robustboard.commands import Content, Wanted, cells_of, measure, show_board, write_site
from robustboard.workspace import Workspace

DEMO_DATASET = "digits"
DEMO_BENCHMARKS = ("clean-v1", "noise-v1", "fgsm-v1", "pgd-v1")
DEMO_GENERATED, DEMO_SAMPLE = "fmr-demo-v1", "sample"
"""What is measured on generated images, and the profile that has time for it."""


def demo(content: Content, *, quiet: bool) -> int:
    """Measure the models trained here on the digits in runs/demo, then write the site with them.

    Controls are left out: their committed results stand. Generated images are made of a hundred digits; such
    partial results are shown in the terminal, and on no board.
    """
    from robustboard.runners.profiles import load_profile  # noqa: PLC0415 - only here

    place = content.workspace
    sandbox = replace(content, workspace=Workspace(place.content, place.runs / "demo"))
    models = [
        m.id
        for m in content.catalog.models.values()
        if m.source.kind == "trained-here"
        and not m.control
        and m.label_space == content.catalog.dataset(DEMO_DATASET).label_space
    ]
    wanted = Wanted(models, DEMO_BENCHMARKS, [DEMO_DATASET], "cpu")
    profile = load_profile(place, wanted.profile)
    code = measure(sandbox, cells_of(sandbox, wanted), profile, wanted, quiet=quiet, use_committed=False)
    if code > 1:
        return code  # interrupted, or the disk is full: the same command goes on
    generated = replace(wanted, benchmarks=[DEMO_GENERATED], profile=DEMO_SAMPLE)
    profile = load_profile(place, DEMO_SAMPLE)
    moved = measure(sandbox, cells_of(sandbox, generated), profile, generated, quiet=quiet)
    if moved > 1:
        return moved
    write_site(
        sandbox, place.site_output, [place.committed_results, place.results, sandbox.workspace.results]
    )
    show_board(sandbox, "digits", as_json=False)
    if not moved:
        show_scores(sandbox, DEMO_GENERATED, DEMO_DATASET)
    return max(code, moved)
