"""The ways to measure clean accuracy that the benchmark compares: files in, number of right images out."""

from __future__ import annotations

import resource
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from timm.data.dataset_factory import create_dataset
from timm.data.loader import create_loader
from timm.utils.metrics import AverageMeter, accuracy
from torch import Tensor, nn

from robustboard.runners.evaluate import measure_cell
from robustboard.runners.procedures import measure
from robustboard.runners.score import read_result
from tests.bench.clean_material import Setting

TIMM_BATCH = 256
"""validate.py's own default."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of one contender."""

    cpu: float
    """Seconds of all threads and of child processes."""
    wall: float
    right: int
    """Images whose class was predicted."""


Loop = Callable[[Setting], int]


@dataclass(frozen=True, slots=True)
class Contender:
    """One way to do it."""

    name: str
    loop: Loop
    peer: bool = False
    before: Callable[[Setting], None] = lambda _: None
    """What is done before the clock starts."""


def cpu_seconds() -> float:
    """Of this process and of its finished children."""
    found = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in found)


def run(contender: Contender, setting: Setting) -> Run:
    """Time one run."""
    contender.before(setting)
    wall, cpu = time.perf_counter(), cpu_seconds()
    right = contender.loop(setting)
    return Run(cpu_seconds() - cpu, time.perf_counter() - wall, right)


def forget_results(setting: Setting) -> None:
    """Delete predictions and results, so that everything is measured again; keep decoded images."""
    workspace = setting.session.workspace
    for folder in (workspace.results, workspace.runs):
        for path in folder.iterdir() if folder.exists() else ():
            if path.name != "cache":
                shutil.rmtree(path)


def forget_all(setting: Setting) -> None:
    """Delete decoded images as well."""
    forget_results(setting)
    shutil.rmtree(setting.session.workspace.runs / "cache", ignore_errors=True)


def ours(batch: int) -> Loop:
    """Images to predictions as the runner does it, shard by shard; the share of right ones is the result."""

    def loop(setting: Setting) -> int:
        session = setting.session
        samples = session.samples(setting.id, setting.spec)
        job = session.job(setting.cell, setting.model, samples)
        size, right = job.key.shard_size, 0
        for start in range(0, setting.images, size):
            part = range(start, min(start + size, setting.images))
            images = samples.pixels(part)
            if part.stop < setting.images:
                samples.prepare(range(part.stop, min(part.stop + size, setting.images)))
            table = measure(
                job.benchmark.procedure,
                job.setting,
                classifier=job.network,
                classes=job.classes,
                images=images,
                labels=samples.labels[part.start : part.stop].copy(),
                ids=samples.ids[part.start : part.stop],
                key=job.key,
                batch_size=batch,
                device="cpu",
            )
            right += int((table.column("predicted") == table.column("label")).sum())
        return right

    return loop


def whole_cell(setting: Setting) -> int:
    """All that `robustboard run` does for a cell: a look at the model, store, scores, intervals as well."""
    session = setting.session
    samples = session.samples(setting.id, setting.spec)
    measure_cell(session.job(setting.cell, setting.model, samples), session)
    path = session.workspace.results / f"{setting.cell.name}.json"
    result = read_result(path, path.name)
    found = next(each.correct for each in result.scores if each.metric == "clean_accuracy")
    if found is None:
        raise ValueError("expected a number of right images in the result")
    return found


meter: Callable[[], Any] = AverageMeter
share_right: Callable[..., Any] = accuracy


def timm_loop(batch: int, workers: int) -> Loop:
    """timm's classes as its validate.py drives them, with this batch size and so many worker processes."""

    def loop(setting: Setting) -> int:
        spec = setting.spec
        dataset = create_dataset("", root=str(setting.root), class_map=setting.classes)
        loader = create_loader(
            dataset,
            input_size=(3, spec.size, spec.size),
            batch_size=batch,
            use_prefetcher=True,
            interpolation=spec.interpolation,
            mean=tuple(map(float, spec.mean)),
            std=tuple(map(float, spec.std)),
            num_workers=workers,
            crop_pct=float(spec.crop),
            crop_mode="center",
            pin_memory=False,
            persistent_workers=False,
            device=torch.device("cpu"),
        )
        losses, top1, top5 = (meter() for _ in range(3))
        criterion = nn.CrossEntropyLoss()
        setting.plain.eval()
        with torch.inference_mode():
            for images, targets in loader:
                outputs = setting.plain(images)
                loss = criterion(outputs, targets)
                first, fifth = share_right(outputs.detach(), targets, topk=(1, 5))
                losses.update(loss.item(), images.size(0))
                top1.update(first.item(), images.size(0))
                top5.update(fifth.item(), images.size(0))
        right: int = round(top1.sum / 100)
        return right

    return loop


def forward(batch: int) -> Contender:
    """Our network alone on pixels that are ready: what no loop can do without."""
    ready: dict[str, tuple[Tensor, Tensor]] = {}

    def loop(setting: Setting) -> int:
        images, labels = ready[setting.id]
        with torch.no_grad():
            found = [setting.model.classifier(part).argmax(1) for part in torch.split(images, batch)]
        return int((torch.cat(found) == labels).sum())

    def prepare(setting: Setting) -> None:
        if setting.id not in ready:
            samples = setting.session.samples(setting.id, setting.spec)
            pixels = torch.from_numpy(samples.pixels(range(setting.images)))
            ready[setting.id] = (pixels, torch.from_numpy(samples.labels.copy()))

    return Contender(f"our network alone, batch {batch}", loop, before=prepare)
