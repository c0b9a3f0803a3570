"""The benchmark's own arithmetic, and a smoke run where the peers' environment exists."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from robustboard import workspace as places
from robustboard.benchmarks.catalog import load_benchmarks
from robustboard.benchmarks.entries import Cascade, Ladder
from robustboard.registry.catalog import load_catalog
from tests.bench import attacks, material, ours, peers, report, timing
from tests.bench.cases import CASES, nearest, quick
from tests.bench.task import Contender, Task, predicted, standing
from tests.bench.timing import Cost, Duel, Measurement, Peak, Work
from tests.conftest import Labelled

ROOT = Path(__file__).resolve().parents[2]
PEERS_PYTHON = ROOT / ".venv-peers" / "bin" / "python"
IMAGES = Path("/usr/share/datasets/fashion-mnist/t10k-images-idx3-ubyte.gz")


def task(net: nn.Module, images: Tensor, labels: Tensor, eps: str = "1/10", steps: int = 5) -> Task:
    return Task(net, images, labels, classes=10, eps=Fraction(eps), steps=steps)


@pytest.fixture
def digits(standard_net: nn.Module, digits_test: Labelled) -> Task:
    images, labels = (torch.from_numpy(each[:60]) for each in digits_test)
    return task(standard_net, images, labels)


def measured(cpu: float, stands: list[bool], wall: float = 1.0) -> Measurement:
    return Measurement(cpu, wall, Work(10, 5), torch.tensor(stands))


def idle(_task: Task, _rows: int) -> Tensor:
    raise AssertionError("not to be run")


def outcome(digits: Task, own: list[Measurement], theirs: dict[str, list[Measurement]]) -> report.Outcome:
    return report.Outcome(
        case=CASES[0],
        task=digits,
        network="net",
        ours=Contender("ours", idle),
        rows={"ours": 16, **dict.fromkeys(theirs, 64)},
        clean=0.9,
        cost=Cost(2.0, 3.0),
        duels=[
            Duel(Contender(name, idle, equal_work=name != "lazy"), own, runs) for name, runs in theirs.items()
        ],
    )


def test_rounds_take_every_peer_once_and_turn_the_order_around() -> None:
    assert list(timing.pairs(2, 3)) == [
        (0, True),
        (1, True),
        (1, False),
        (0, False),
        (0, True),
        (1, True),
    ]


def test_contenders_take_turns(monkeypatch: pytest.MonkeyPatch, digits: Task) -> None:
    ran: list[tuple[str, int]] = []

    def record(contender: Contender, _task: Task, rows: int) -> Measurement:
        ran.append((contender.name, rows))
        return measured(1.0, [True])

    monkeypatch.setattr(timing, "run", record)
    own, peer = Contender("ours", idle), Contender("peer", idle)
    duels = timing.fight(
        own, [peer], (digits, digits), rows={"ours": 16, "peer": 64}, rounds=3, progress=lambda _text: None
    )

    assert [name for name, _ in ran] == ["ours", "peer", "peer", "ours", "ours", "peer"]
    assert set(ran) == {("ours", 16), ("peer", 64)}
    assert (len(duels[0].ours), len(duels[0].theirs)) == (3, 3)


def test_the_fastest_batch_size_is_chosen(monkeypatch: pytest.MonkeyPatch, digits: Task) -> None:
    seconds = {16: [3.0, 9.0], 32: [9.0, 1.0], 60: [2.0, 2.0]}
    briefs: list[int] = []

    def record(_contender: Contender, given: Task, rows: int) -> Measurement:
        briefs.append(given.steps)
        return measured(seconds[rows].pop(0), [True])

    monkeypatch.setattr(timing, "run", record)

    assert timing.choose_rows(Contender("x", idle), digits, (16, 32, 64, 128)) == 32
    assert set(briefs) == {2}

    seconds = {16: [3.0, 9.0], 128: [1.0, 1.0]}  # more rows than the 60 images, which it sends several times
    assert timing.choose_rows(Contender("x", idle, many_rows=True), digits, (16, 128)) == 128


def test_work_is_counted_at_the_network(digits: Task) -> None:
    """20 images forward and 7 with a gradient; nothing is counted outside of the block."""
    images = digits.images
    with timing.counting(digits.classifier) as work:
        predicted(digits, images[:20])
        digits.classifier(images[:7].clone().requires_grad_())
    predicted(digits, images)

    assert work == Work(forward=27, gradient=7)


def test_cost_counts_products_and_their_gradients() -> None:
    """A linear layer of 12 by 5: 2 * 60 operations forward, as many for the gradient of the input."""
    net = nn.Sequential(nn.Flatten(), nn.Linear(12, 5)).requires_grad_(requires_grad=False)
    found = timing.cost(task(net, torch.rand(4, 3, 2, 2), torch.zeros(4, dtype=torch.int64)))

    assert found == Cost(120.0, 120.0)
    assert found.of(Work(forward=3, gradient=1)) == 480.0


def test_nobody_gains_by_leaving_the_budget(two_class: nn.Module) -> None:
    """s = sum of pixels - 2: at s = 0.4 a budget of 1/20 moves s by 0.2 only, 1/5 by 0.8."""
    images = torch.full((1, 1, 2, 2), 0.6)
    labels = torch.zeros(1, dtype=torch.int64)
    black = torch.zeros_like(images)

    assert standing(task(two_class, images, labels, "1/20"), black).tolist() == [True]
    assert standing(task(two_class, images, labels, "1/5"), black).tolist() == [False]


def test_images_wrong_from_the_start_do_not_stand(two_class: nn.Module) -> None:
    images = torch.full((1, 1, 2, 2), 0.4)
    labels = torch.zeros(1, dtype=torch.int64)

    assert standing(task(two_class, images, labels), torch.ones_like(images)).tolist() == [False]


def test_pgd_of_ours_is_the_runners(two_class: nn.Module) -> None:
    """s of 0.16 and 0.24 against 4 * 1/20 = 0.2, and one wrong from the start."""
    images = torch.tensor([0.54, 0.56, 0.4]).view(3, 1, 1, 1).expand(3, 1, 2, 2).contiguous()
    found = ours.pgd(task(two_class, images, torch.zeros(3, dtype=torch.int64), "1/20"), 16)

    assert found.tolist() == [False, True, False]


def test_autoattack_is_the_protocol_of_the_registry(digits: Task) -> None:
    """Equal to benchmarks/autoattack-v1.yaml where a task has 100 iterations and 5,000 queries."""
    workspace = places.find(ROOT)
    protocol = load_benchmarks(workspace, load_catalog(workspace))["autoattack-v1"].procedure
    setting = Ladder(datasets=("bench",), budgets=(Fraction(1, 10),), headline=Fraction(1, 10))
    made = ours.standard(replace(digits, steps=100, queries=5000), setting)

    assert isinstance(protocol, Cascade)
    assert (made.norm, made.attacks) == (protocol.norm, protocol.attacks)


def test_autoattack_of_ours_breaks_what_pgd_breaks(digits: Task) -> None:
    """On a standard network at Linf 1/10; some images stand before the attack, some after it."""
    few = replace(digits, images=digits.images[:32], labels=digits.labels[:32], steps=20, queries=50)
    found = ours.autoattack(few, 16)
    right = predicted(few, few.images) == few.labels

    assert not bool((found & ~ours.pgd(few, 16)).any())
    assert 0 < int(found.sum()) < int(right.sum())


def test_plain_networks_answer_the_same(digits: Task) -> None:
    laid_out = deepcopy(digits.classifier).to(memory_format=torch.channels_last)
    network = material.Network("net", laid_out, laid_out, 10)
    plain = network.plain()

    assert all(value.is_contiguous() for value in plain.parameters())
    assert not all(value.is_contiguous() for value in network.classifier.parameters())
    torch.testing.assert_close(plain(digits.images), network.classifier(digits.images))


@pytest.mark.parametrize(
    ("wanted", "expected", "asked"), [(0.0, "1/5", 3), (0.5, "1/10", 4), (1.0, "1/20", 1)]
)
def test_the_budget_nearest_to_the_aim(wanted: float, expected: str, asked: int) -> None:
    """An exact hit ends the search: budgets beyond it only make the task easier."""
    shares = {"1/20": 1.0, "1/10": 0.4, "1/5": 0.0, "3/10": 0.0}
    tried: list[Fraction] = []

    def share(eps: Fraction) -> float:
        tried.append(eps)
        return {Fraction(name): value for name, value in shares.items()}[eps]

    assert nearest(list(map(Fraction, shares)), wanted, share) == Fraction(expected)
    assert len(tried) == asked


def test_ratios_are_of_medians_in_the_same_pairs(digits: Task) -> None:
    own = [measured(cpu, [True]) for cpu in (1.0, 2.0, 9.0)]
    slow = [measured(cpu, [True]) for cpu in (20.0, 30.0, 1.0)]
    found = outcome(digits, own, {"slow": slow, "slower": slow[:2], "lazy": [measured(0.1, [True])] * 3})

    assert found.duels[0].ratio(report.cpu) == 10.0
    assert found.fastest.peer.name == "slow"


def test_share_of_peak_is_of_the_median_run(digits: Task) -> None:
    """10 images forward at 2 and 5 gradients at 3 operations make 35, in 2 seconds, of 1e9 * 7e-8."""
    own = [measured(cpu, [True]) for cpu in (1.0, 2.0, 9.0)]

    found = outcome(digits, own, {"peer": own}).share_of_peak(own, Peak(7e-8, 1e-9))
    assert found == pytest.approx(35 / 2 / 70)


@pytest.mark.parametrize(("ours_stand", "complains"), [(99, False), (100, False), (101, False), (102, True)])
def test_robust_accuracy_above_the_strongest_peer_is_a_complaint(
    digits: Task, ours_stand: int, *, complains: bool
) -> None:
    """Of 200 images the strongest peer leaves 100; half a point is one image."""

    def leaving(count: int) -> list[Measurement]:
        return [measured(1.0, [index < count for index in range(200)])]

    found = outcome(digits, leaving(ours_stand), {"weak": leaving(150), "strong": leaving(100)}).complaint()

    assert (found is not None) == complains
    if found is not None:
        assert found.startswith("pgd20-undefended: robust accuracy 51.0 %")
        assert found.endswith("above the strongest peer's 50.0 %")


def test_the_page_names_what_matters(digits: Task) -> None:
    own, peer = [measured(1.0, [True] * 59 + [False])], [measured(30.0, [True] * 58 + [False] * 2)]
    text = report.markdown(
        [outcome(digits, own, {"peer": peer})],
        peak=Peak(1.0, 2.0),
        facts={"processor": "abacus"},
        rounds=3,
        notes=["a note"],
    )
    row = next(line for line in text.splitlines() if line.startswith("| pgd20-undefended"))

    assert "- Processor: abacus" in text
    assert "- a note" in text
    assert row.startswith("| pgd20-undefended | peer | 30.00 | 1.00 | 1.00 | 10, met | 98.3 % | 96.7 % |")
    assert "Linf 1/10, 5 iterations" in text
    assert "| peer | 64 | 30 (30 to 30) | 1 | 30.00 | 96.7 % | 0.2 | 0.1 | 0.0 % | 1 |" in text


def test_every_case_has_a_quick_form() -> None:
    for case in map(quick, CASES):
        assert (case.images, case.steps, case.target, case.queries) == (24, 4, None, 20)


@pytest.mark.parametrize("words", [["--rounds", "2"], ["--threads", "0"], ["--only", "nothing"]])
def test_settings_that_prove_nothing_are_refused(words: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        attacks.arguments(words)

    assert ended.value.code == 2


@pytest.mark.parametrize(
    ("words", "page"), [([], attacks.PAGE), (["--quick"], None), (["--only", CASES[0].id], None)]
)
def test_only_a_full_run_rewrites_the_page(words: list[str], page: Path | None) -> None:
    assert attacks.arguments(words).write == page


def test_missing_peers_are_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(peers, "PEERS", {"torchattacks": "no_such_module_of_anyone"})

    assert attacks.main(["--quick"]) == 2
    assert "peer torchattacks: No module named 'no_such_module_of_anyone'" in capsys.readouterr().err


def test_the_command_fails_when_ours_is_weaker(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], digits: Task, tmp_path: Path
) -> None:
    """The page is written all the same."""
    weak = outcome(digits, [measured(1.0, [True] * 60)], {"peer": [measured(1.0, [False] * 60)]})
    stubs: dict[str, Callable[..., object]] = {
        "material.load": lambda *_args, **_kwargs: None,
        "peers.missing": list,
        "report.machine": dict,
        "settle": lambda: None,
        "peak": lambda _seconds: Peak(1.0, 1.0),
        "budgets": lambda _stuff, wanted: dict.fromkeys((case.aim for case in wanted), Fraction(1, 10)),
        "measure": lambda *_args, **_kwargs: weak,
    }
    for name, stub in stubs.items():
        monkeypatch.setattr(f"tests.bench.attacks.{name}", stub)
    page = tmp_path / "docs" / "page.md"
    threads = str(torch.get_num_threads())

    assert attacks.main(["--only", CASES[0].id, "--write", str(page), "--threads", threads]) == 1
    assert "pgd20-undefended: robust accuracy 100.0 % is more than 0.5 points" in capsys.readouterr().err
    assert page.read_text().startswith("# Attacks beside their peers")
    assert "- pgd20-undefended: robust accuracy 100.0 %" in page.read_text()


@pytest.mark.long
@pytest.mark.skipif(not PEERS_PYTHON.exists(), reason="no .venv-peers here: `make bench-attacks` makes it")
@pytest.mark.skipif(not IMAGES.exists(), reason="no Fashion-MNIST here")
def test_smoke(tmp_path: Path) -> None:
    """Every contender of every case runs on small networks, and ours is not weaker than a peer."""
    done = subprocess.run(
        [PEERS_PYTHON, "-m", "tests.bench.attacks", "--quick"],
        cwd=ROOT,
        env={**os.environ, "ROBUSTBOARD_OUTPUT": str(tmp_path), "OMP_WAIT_POLICY": "PASSIVE"},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )

    assert done.returncode == 0, done.stderr[-2000:]
    assert [line for line in done.stdout.splitlines() if line.startswith("## ")] == [
        f"## {case.id}" for case in CASES
    ]
    for name in ("torchattacks", "foolbox", "ART", "adv-lib", "torchattacks, shipped"):
        assert f"\n| {name} |" in done.stdout
