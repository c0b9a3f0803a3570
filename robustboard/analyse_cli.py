"""The command `robustboard analyse`: several results on generated images side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from robustboard import console
from robustboard.benchmarks.entries import GeneratedSetting
from robustboard.benchmarks.generated import pair_name
from robustboard.errors import UnknownNameError, UserError

if TYPE_CHECKING:
    from robustboard.commands import Content
    from robustboard.leaderboard.generated import Analysis, Bias
    from robustboard.runners.competence import Competence
    from robustboard.runners.near_training import Neighbours
    from robustboard.runners.store import StoredRun
    from robustboard.runners.transfer import Transfer


def generated_runs(
    content: Content, benchmark_id: str, dataset_id: str
) -> tuple[GeneratedSetting, dict[str, StoredRun]]:
    """The setting of a protocol that generates images, and the largest finished run of each model by name.

    Runs of entries or protocols that have changed since are left out. Raises UserError where the protocol
    generates no images there, or nothing is measured.
    """
    from robustboard.runners.keys import Keys  # noqa: PLC0415 - not paid by --help
    from robustboard.runners.store import Store  # noqa: PLC0415 - likewise

    dataset = content.catalog.dataset(dataset_id)
    if benchmark_id not in content.benchmarks:
        raise UnknownNameError("benchmark", benchmark_id, content.benchmarks)
    setting = content.benchmarks[benchmark_id].setting_for(dataset)
    if not isinstance(setting, GeneratedSetting):
        raise UserError(f"{benchmark_id} generates no images of {dataset_id}")
    store, keys = Store(content.workspace.runs), Keys(content.catalog, content.benchmarks)
    runs: dict[str, StoredRun] = {}
    stale = 0
    for path in store.current().values():
        key = store.current_key(path)
        if (key.benchmark, key.dataset) != (benchmark_id, dataset_id) or not store.is_finished(key.digest):
            continue
        if key.model not in content.catalog.models or keys.changed(key, frozenset({"software"})):
            stale += 1
            continue
        run = store.read(key.digest)
        kept = runs.get(key.model)
        if run is not None and (kept is None or kept.record.plan.evaluated < run.record.plan.evaluated):
            runs[key.model] = run
    if not runs:
        wanted = f"robustboard run -b {benchmark_id} -d {dataset_id}"
        before = f" ({stale} from before a change of the entries)" if stale else ""
        raise UserError(f"no finished run of {benchmark_id} on {dataset_id}{before}: run {wanted}")
    return setting, runs


def analyse(
    content: Content,
    benchmark_id: str,
    dataset_id: str,
    *,
    with_transfer: bool,
    with_neighbours: bool,
    as_json: bool,
) -> None:
    """Print ranks, agreement, bias and controls of the stored runs of a protocol on a dataset; more if asked.

    Raises UserError as `generated_runs` does.
    """
    setting, runs = generated_runs(content, benchmark_id, dataset_id)
    found = _analysed(content, setting, runs)
    pairs = [pair_name(use.generator, oracle) for use, oracle in setting.pairs]
    near = _neighbours(content, pairs, runs) if with_neighbours else []
    moved = _transferred(content, pairs, runs) if with_transfer else []
    if as_json:
        more = {"neighbours": [asdict(each) for each in near], "transfer": [asdict(each) for each in moved]}
        console.out_json(asdict(found) | more)
        return
    _show_scores(found)
    _show_agreement(found)
    _show_controls(found)
    if near:
        _show_neighbours(near)
    if moved:
        _show_transfer(moved, sorted(runs))


def show_scores(content: Content, benchmark_id: str, dataset_id: str) -> None:
    """Print the scores alone. Raises UserError as `generated_runs` does."""
    setting, runs = generated_runs(content, benchmark_id, dataset_id)
    _show_scores(_analysed(content, setting, runs))


def _analysed(content: Content, setting: GeneratedSetting, runs: Mapping[str, StoredRun]) -> Analysis:
    """Everything that stored predictions tell."""
    from robustboard.leaderboard.generated import analyse as analysed  # noqa: PLC0415 - scipy takes a second
    from robustboard.runners.keys import Keys  # noqa: PLC0415 - not paid by other commands
    from robustboard.runners.score import rebuild  # noqa: PLC0415 - likewise

    keys = Keys(content.catalog, content.benchmarks)
    results = [rebuild(run, keys) for run in runs.values()]
    tables = {name: run.predictions for name, run in runs.items()}
    return analysed(setting, results, tables, _gates(content, setting, runs))


def _gates(content: Content, setting: GeneratedSetting, runs: Mapping[str, StoredRun]) -> list[Competence]:
    """What the gate measured of the oracles that these runs were judged by."""
    from robustboard.runners.competence import read_competence  # noqa: PLC0415 - not paid by --help

    found = []
    for oracle in setting.oracles:
        for run in runs.values():
            key = run.record.plan.key
            known = key.parts.get(f"oracle/{oracle}", "")
            kept = read_competence(content.workspace, known, key.data_fingerprint)
            if kept is not None:
                found.append(kept)
                break
    return found


def _neighbours(content: Content, pairs: list[str], runs: Mapping[str, StoredRun]) -> list[Neighbours]:
    from robustboard.runners.near_training import neighbours  # noqa: PLC0415 - only here
    from robustboard.runners.progress import reporter  # noqa: PLC0415 - imports rich

    with reporter(quiet=False) as shown:
        return [
            row
            for pair in pairs
            for row in neighbours(
                runs,
                pair,
                workspace=content.workspace,
                catalog=content.catalog,
                lock=content.lock,
                reporter=shown,
            )
        ]


def _transferred(content: Content, pairs: list[str], runs: Mapping[str, StoredRun]) -> list[Transfer]:
    """The matrix of every pair; loads every model."""
    from robustboard.runners.profiles import load_profile  # noqa: PLC0415 - only here
    from robustboard.runners.progress import reporter  # noqa: PLC0415 - imports rich
    from robustboard.runners.session import Session  # noqa: PLC0415 - takes seconds to import
    from robustboard.runners.transfer import transfer  # noqa: PLC0415 - likewise

    profile = load_profile(content.workspace, "cpu")
    with reporter(quiet=False) as shown:
        session = Session(
            content.workspace, content.catalog, content.benchmarks, content.lock, profile, reporter=shown
        )
        return [each for pair in pairs for each in transfer(session, runs, pair)]


def _percent(number: object) -> str:
    return "-" if not isinstance(number, float) else f"{100 * number:.1f}"


def _plain(number: object, digits: int = 1) -> str:
    return "-" if not isinstance(number, float) else f"{number:.{digits}f}"


def _show_scores(found: Analysis) -> None:
    console.out_table(
        [
            "model",
            "generator by oracle",
            "images",
            "SA %",
            "PA %",
            "VR %",
            "FMR",
            "FMR matched",
            "FMR net",
            "steps",
            "flags",
        ],
        (
            [
                str(row["model"]),
                str(row["pair"]),
                str(row["images"]),
                _percent(row["clean_accuracy"]),
                f"{_percent(row['perturbed_accuracy'])} {_range(row, 'perturbed_accuracy', 100)}",
                f"{_percent(row['validation_rate'])} {_range(row, 'validation_rate', 100)}",
                f"{_plain(row['fmr'])} {_range(row, 'fmr', 1)}",
                _plain(row["fmr_matched"]),
                _plain(row["fmr_net"]),
                _plain(row["accepted_steps"]),
                str(row["flags"]),
            ]
            for row in found.rows
        ),
        title=f"{found.benchmark} on {found.dataset}",
    )


def _show_agreement(found: Analysis) -> None:
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
            "loss where the oracle errs",
        ],
        (_told(each) for each in found.bias),
        title="are some classes accepted less often?",
    )


def _range(row: dict[str, str | float | None], metric: str, factor: int) -> str:
    return _interval(row[f"{metric}_low"], row[f"{metric}_high"], factor)


def _interval(low: object, high: object, factor: int = 100) -> str:
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
        _plain(bias.correlation, 2),
    ]


def _show_controls(found: Analysis) -> None:
    console.out_table(
        ["oracle", "images", "right %", "calibration error %", "Brier score"],
        (
            [
                gate.oracle,
                str(gate.images),
                _percent(gate.accuracy),
                _percent(gate.expected_calibration_error),
                _plain(gate.brier_score, 3),
            ]
            for gate in found.gates
        ),
        title="how good are the oracles on the images as they are?",
    )
    console.out_table(
        ["model", "generator", "images", "SA %", "rebuilt %", "lost", "gained", "p of no difference"],
        (
            [
                leak.model,
                leak.generator,
                str(leak.images),
                _percent(leak.clean_accuracy),
                _percent(leak.reconstruction_accuracy),
                str(leak.lost),
                str(leak.gained),
                _plain(leak.p_value, 3),
            ]
            for leak in found.leaks
        ),
        title="does the generator alone, without a step, cost the model accuracy?",
    )
    console.out_table(
        ["model", "generator by oracle", "oracle's margin", "images", "VR %", "PA %", "SA %"],
        (
            [
                half.model,
                half.pair,
                f"{'up to' if half.half == 'low' else 'above'} {half.margin:.2f}",
                str(half.images),
                _percent(half.validation_rate),
                f"{_percent(half.perturbed_accuracy)} {_interval(half.low, half.high)}".rstrip(),
                _percent(half.clean_accuracy),
            ]
            for half in found.margins
        ),
        title="are images that the oracle is surer of treated otherwise?",
    )


def _show_neighbours(near: Sequence[Neighbours]) -> None:
    console.out_table(
        [
            "model",
            "generator by oracle",
            "images",
            "training images",
            "original",
            "generated",
            "moved",
            "nearer to training",
            "copies",
        ],
        (
            [
                each.model,
                each.pair,
                str(each.images),
                each.training,
                _plain(each.original, 2),
                _plain(each.generated, 2),
                _plain(each.moved, 2),
                str(each.nearer),
                str(each.copies),
            ]
            for each in near
        ),
        title="are generated images near to training images? Median L2 distances",
    )


def _show_transfer(moved: Sequence[Transfer], names: Sequence[str]) -> None:
    console.out_table(
        ["images of", "generator by oracle", "images", *(f"{name} %" for name in names)],
        (
            [each.source, each.pair, str(each.images), *(_percent(each.accuracy[name]) for name in names)]
            for each in moved
        ),
        title="do images generated against one model fool another?",
    )
