"""The command `robustboard analyse`: several results on generated images side by side."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from robustboard import console
from robustboard.benchmarks.entries import GeneratedSetting
from robustboard.benchmarks.generated import pair_name
from robustboard.errors import UserError

if TYPE_CHECKING:
    from robustboard.commands import Content
    from robustboard.leaderboard.generated import Analysis, Bias
    from robustboard.runners.store import StoredRun
    from robustboard.runners.transfer import Transfer


def analyse(
    content: Content, benchmark_id: str, dataset_id: str, *, with_transfer: bool, as_json: bool
) -> None:
    """Print ranks, agreement and bias of every stored run of a protocol on a dataset, and transfer if asked.

    Raises UserError where the protocol generates no images there, or nothing is measured.
    """
    from robustboard.leaderboard.generated import analyse as analysed  # noqa: PLC0415 - scipy takes a second
    from robustboard.runners.keys import Keys  # noqa: PLC0415 - not paid by other commands
    from robustboard.runners.score import rebuild  # noqa: PLC0415 - likewise
    from robustboard.runners.store import Store  # noqa: PLC0415 - likewise

    dataset = content.catalog.dataset(dataset_id)
    if benchmark_id not in content.benchmarks:
        raise UserError(f"there is no benchmark {benchmark_id}")
    setting = content.benchmarks[benchmark_id].setting_for(dataset)
    if not isinstance(setting, GeneratedSetting):
        raise UserError(f"{benchmark_id} generates no images of {dataset_id}")
    store, keys = Store(content.workspace.runs), Keys(content.catalog, content.benchmarks)
    runs: dict[str, StoredRun] = {}
    for path in store.current().values():
        key = store.current_key(path)
        if (key.benchmark, key.dataset) == (benchmark_id, dataset_id) and store.is_finished(key.digest):
            run = store.read(key.digest)
            kept = runs.get(key.model)
            if run is not None and (kept is None or kept.record.plan.evaluated < run.record.plan.evaluated):
                runs[key.model] = run
    if not runs:
        wanted = f"robustboard run -b {benchmark_id} -d {dataset_id}"
        raise UserError(f"no finished run of {benchmark_id} on {dataset_id}: run {wanted}")
    results = [rebuild(run, keys) for run in runs.values()]
    found = analysed(setting, results, {name: run.predictions for name, run in runs.items()})
    moved = _transferred(content, setting, runs) if with_transfer else []
    if as_json:
        console.out_json(asdict(found) | {"transfer": [asdict(each) for each in moved]})
        return
    _show(found)
    if moved:
        console.out_table(
            ["images of", "generator by oracle", "images", *(f"{name} %" for name in sorted(runs))],
            (
                [
                    each.source,
                    each.pair,
                    str(each.images),
                    *(_percent(each.accuracy[name]) for name in sorted(runs)),
                ]
                for each in moved
            ),
            title="do images generated against one model fool another?",
        )


def _transferred(content: Content, setting: GeneratedSetting, runs: dict[str, StoredRun]) -> list[Transfer]:
    """The matrix of every pair; loads every model."""
    from robustboard.runners.profiles import load_profile  # noqa: PLC0415 - only here
    from robustboard.runners.session import Session  # noqa: PLC0415 - takes seconds to import
    from robustboard.runners.transfer import transfer  # noqa: PLC0415 - likewise

    profile = load_profile(content.workspace, "cpu")
    session = Session(content.workspace, content.catalog, content.benchmarks, content.lock, profile)
    pairs = [pair_name(use.generator, oracle) for use, oracle in setting.pairs]
    return [each for pair in pairs for each in transfer(session, runs, pair)]


def _percent(number: object) -> str:
    return "-" if not isinstance(number, float) else f"{100 * number:.1f}"


def _plain(number: object, digits: int = 1) -> str:
    return "-" if not isinstance(number, float) else f"{number:.{digits}f}"


def _show(found: Analysis) -> None:
    console.out_table(
        ["model", "generator by oracle", "SA %", "PA %", "VR %", "FMR", "FMR matched", "steps", "flags"],
        (
            [
                str(row["model"]),
                str(row["pair"]),
                _percent(row["clean_accuracy"]),
                f"{_percent(row['perturbed_accuracy'])} {_range(row, 'perturbed_accuracy', 100)}",
                _percent(row["validation_rate"]),
                f"{_plain(row['fmr'])} {_range(row, 'fmr', 1)}",
                _plain(row["fmr_matched"]),
                _plain(row["accepted_steps"]),
                str(row["flags"]),
            ]
            for row in found.rows
        ),
        title=f"{found.benchmark} on {found.dataset}",
    )
    for title, pairs in (("generators", found.generators), ("oracles", found.oracles)):
        console.out_table(
            ["ranked by", "and by", "models", "Kendall's tau"],
            (
                [p.first, p.second, str(p.models), p.reason if p.tau is None else f"{p.tau:.2f}"]
                for p in pairs
            ),
            title=f"do {title} rank the models alike?",
        )
    console.out_table(
        ["oracle", "oracle", "images", "same answer %"],
        ([a.first, a.second, str(a.images), _percent(a.share)] for a in found.agreement),
        title="do oracles agree on the images as they are?",
    )
    console.out_table(
        [
            "model",
            "generator by oracle",
            "accepted",
            "p of equal classes",
            "entropy",
            "lowest class",
            "VR % there",
        ],
        (_told(each) for each in found.bias),
        title="are some classes accepted less often?",
    )


def _range(row: dict[str, str | float | None], metric: str, factor: int) -> str:
    low, high = row[f"{metric}_low"], row[f"{metric}_high"]
    if not isinstance(low, float) or not isinstance(high, float):
        return ""
    return f"[{factor * low:.1f}, {factor * high:.1f}]"


def _told(bias: Bias) -> list[str]:
    lowest = "-" if bias.lowest_class is None else str(bias.lowest_class)
    return [
        bias.model,
        bias.pair,
        str(bias.accepted),
        _plain(bias.p_value, 3),
        _plain(bias.entropy, 3),
        lowest,
        _percent(bias.lowest_rate),
    ]
