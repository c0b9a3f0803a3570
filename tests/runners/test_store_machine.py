"""The store under any order of events, by a state machine."""

from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from robustboard.errors import StoreError
from robustboard.runners.store import Store
from tests.runners.small import Made


class StoreMachine(RuleBasedStateMachine):
    """Put, stop, damage, commit and read in any order: a run reads right, or not at all."""

    made: Made
    root: Path

    def __init__(self) -> None:
        super().__init__()
        StoreMachine.count += 1
        self.store = Store(StoreMachine.root / str(StoreMachine.count) / "runs")
        self.expected: list[object] = []
        self.damaged = False

    count = 0

    @rule(index=st.integers(0, 2))
    def put(self, index: int) -> None:
        with self.store.open(self.made.plan, self.made.ids, self.made.labels) as run:
            if index in run.missing:
                run.put(index, self.made.shard(index), self.made.facts)
        self.damaged = False

    @rule()
    def complete(self) -> None:
        self.made.into(self.store)
        self.damaged = False
        assert self.store.read(self.made.key.digest) is not None

    @precondition(lambda self: self.stored())
    @rule(data=st.data())
    def damage(self, data: st.DataObject) -> None:
        path = data.draw(st.sampled_from(self.stored()))
        content = bytearray(path.read_bytes())
        kind = data.draw(st.sampled_from(["flip", "cut", "delete"] if content else ["delete"]))
        if kind == "delete":
            path.unlink()
        elif kind == "cut":
            path.write_bytes(content[: data.draw(st.integers(0, len(content) - 1))])
        else:
            place = data.draw(st.integers(0, len(content) * 8 - 1))
            content[place // 8] ^= 1 << (place % 8)
            path.write_bytes(content)
        self.damaged = True

    def stored(self) -> list[Path]:
        return sorted(self.store.folder(self.made.key.digest).glob("*.*"))

    @invariant()
    def right_or_refused_or_absent(self) -> None:
        try:
            stored = self.store.read(self.made.key.digest)
        except StoreError:
            assert self.damaged
            return
        if stored is not None:
            tables = [self.made.shard(index).table.to_pylist() for index in range(3)]
            assert stored.predictions.table.to_pylist() == [row for rows in tables for row in rows]


def test_the_store_in_any_order_of_events(tmp_path: Path, made: Made) -> None:
    StoreMachine.made, StoreMachine.root = made, tmp_path
    run_state_machine_as_test(
        StoreMachine,
        settings=settings(
            max_examples=12,
            stateful_step_count=10,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
