"""A bar on a terminal, lines in a log, silence on demand; and the arithmetic behind them."""

from __future__ import annotations

import io

from rich.console import Console

from robustboard.runners.progress import Bar, Lines, Meter, Silent, reporter


class Clock:
    """A clock that a test turns."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_time_left_counts_measured_work_only() -> None:
    """Ten units in five seconds leave fifteen seconds for thirty; loading before does not count."""
    clock = Clock()
    meter = Meter(clock)
    meter.left = {"a": 20.0, "b": 20.0}
    assert meter.seconds_left() is None
    assert meter.describe() == ""
    meter.stage("loading")
    clock.now += 1_000
    meter.stage("shard 1")
    clock.now += 5
    meter.advance("a", 10, 50)
    assert meter.seconds_left() == 15
    assert meter.describe() == "10 images/s, 0:15 left"
    assert meter.total == 40
    del meter.left["b"]
    assert meter.seconds_left() == 5


def test_minutes_are_written_as_minutes() -> None:
    clock = Clock()
    meter = Meter(clock)
    meter.left = {"a": 101.0}
    clock.now += 1
    meter.advance("a", 1, 3_000)
    assert meter.describe() == "3,000 images/s, 1:40 left"


def test_lines_come_now_and_then_and_for_each_finished_cell() -> None:
    clock, stream = Clock(), io.StringIO()
    lines = Lines(stream, every=5, meter=Meter(clock))
    with lines:
        lines.expect("a", 4)
        for shard in range(4):
            lines.stage(f"a: shard {shard + 1} of 4")
            clock.now += 2
            lines.advance("a", 1, 10)
        lines.finish("a", "ok a: fine")
    assert stream.getvalue().splitlines() == [
        "  0% a: shard 1 of 4",
        " 75% a: shard 3 of 4 5 images/s, 0:02 left",
        "ok a: fine",
    ]


def test_a_cell_that_ends_early_takes_its_work_out_of_the_sum() -> None:
    lines = Lines(io.StringIO())
    lines.expect("a", 5)
    lines.expect("b", 5)
    lines.finish("a", "failed a: missing")
    assert lines.meter.total == 5


def test_the_bar_shows_its_text_literally_and_is_gone_at_the_end() -> None:
    """Square brackets in names are no markup."""
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=100)
    with Bar(console) as bar:
        bar.expect("a", 2)
        bar.stage("[bold]a[/bold]: shard 1 of 2")
        bar.advance("a", 1, 10)
        bar.bar.refresh()
        bar.finish("a", "ok [red]a[/red]")
    text = stream.getvalue()
    assert "[bold]a[/bold]: shard 1 of 2" in text
    assert "50%" in text
    assert "ok [red]a[/red]" in text
    assert text.endswith("\x1b[?25h") or "\x1b[?25h" in text


def test_the_place_decides_how_progress_is_shown() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    assert isinstance(reporter(stream=Terminal()), Bar)
    assert isinstance(reporter(stream=io.StringIO()), Lines)
    assert type(reporter(quiet=True, stream=Terminal())) is Silent


def test_silence_is_silent() -> None:
    with Silent() as silent:
        silent.expect("a", 1)
        silent.stage("a")
        silent.advance("a", 1, 1)
        silent.finish("a", "ok")
