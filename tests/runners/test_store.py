"""What the store holds is whole and verified, or not there."""

from __future__ import annotations

import fcntl
import hashlib
import io
import logging
import multiprocessing
import os
import random
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from robustboard import durable, jsons
from robustboard.errors import DiskFullError, StoreError
from robustboard.runners.predictions import PredictionTable
from robustboard.runners.record import RunKey
from robustboard.runners.store import Store, decode, encode, merge_facts
from tests.runners.small import FACTS, Made, files

FORK = multiprocessing.get_context("fork")
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")


def folder_of(store: Store, made: Made) -> Path:
    return store.folder(made.key.digest)


def test_a_finished_run_comes_back_as_it_was_put(store: Store, made: Made) -> None:
    made.into(store)
    stored = store.read(made.key.digest)
    assert stored is not None
    rows = [made.shard(index).table.to_pylist() for index in range(3)]
    assert stored.predictions.table.to_pylist() == [row for part in rows for row in part]
    assert [shard.rows for shard in stored.record.shards] == [20, 20, 10]
    for count in stored.record.counts:
        right = [r for part in rows for r in part if r["condition"] == count.condition]
        assert count.total == 25
        assert count.correct == sum(row["label"] == row["predicted"] for row in right)


def test_the_record_names_the_sha256_of_each_shard(store: Store, made: Made) -> None:
    record = made.into(store).record
    for shard in record.shards:
        data = (folder_of(store, made) / shard.name).read_bytes()
        assert shard.sha256 == hashlib.sha256(data).hexdigest()


def test_a_shard_carries_page_checksums_and_no_time_or_place(made: Made) -> None:
    data = encode(made.shard(0))
    assert data == encode(made.shard(0))
    plain = io.BytesIO()
    pq.write_table(made.shard(0).table, plain, compression="zstd")
    assert len(data) > len(plain.getvalue())
    assert decode(data, "x").table.equals(made.shard(0).table)


def test_an_unfinished_run_is_not_there(store: Store, made: Made) -> None:
    with store.open(made.plan, made.ids, made.labels) as run:
        run.put(0, made.shard(0), made.facts)
        run.put(2, made.shard(2), made.facts)
    assert store.read(made.key.digest) is None
    with store.open(made.plan, made.ids, made.labels) as run:
        assert run.missing == [1]
        with pytest.raises(StoreError, match=r"s00001\.json: cannot read: No such file"):
            run.commit()


def test_order_of_shards_and_interruptions_leave_the_same_bytes(tmp_path: Path, made: Made) -> None:
    """E7: the stored bytes do not tell in what order, or in how many tries, they came to be."""
    one, other = Store(tmp_path / "one" / "runs"), Store(tmp_path / "other" / "runs")
    made.into(one)
    for index in (2, 0):
        with other.open(made.plan, made.ids, made.labels) as run:
            run.put(index, made.shard(index), made.facts)
    made.into(other)
    assert files(one.root, facts=True) == files(other.root, facts=True)


def test_circumstances_stay_out_of_the_deterministic_files(tmp_path: Path, made: Made) -> None:
    one, other = Store(tmp_path / "one" / "runs"), Store(tmp_path / "other" / "runs")
    later = FACTS.model_copy(update={"seconds": 9.0, "finished_at": "2036-01-31T00:00:00Z"})
    made.into(one)
    Made(made.key, made.ids, made.labels, facts=later).into(other)
    assert files(one.root) == files(other.root)
    assert files(one.root, facts=True) != files(other.root, facts=True)


def test_circumstances_of_shards_add_up() -> None:
    other = FACTS.model_copy(
        update={
            "seconds": 1.25,
            "peak_memory_bytes": 5,
            "batch_size": 4,
            "device": "gpu",
            "environment": {"python": "4", "torch": "2"},
            "finished_at": "2026-02-01T00:00:00Z",
        }
    )
    merged = merge_facts([FACTS, other, FACTS])
    assert merged.seconds == 2.25
    assert merged.peak_memory_bytes == 1_000
    assert merged.batch_size == 4
    assert merged.device == "cpu; gpu"
    assert merged.environment == {"python": "3; 4", "torch": "2"}
    assert merged.finished_at == "2026-02-01T00:00:00Z"


def test_rows_that_are_not_the_planned_samples_are_refused(store: Store, made: Made) -> None:
    """Duplicate, missing, extra or permuted samples, other labels or conditions (reliability 2.4)."""
    good = made.shard(0)
    rows = good.table
    wrong = [
        made.shard(1).table,
        rows.slice(1),
        rows.take([1, 0, *range(2, 20)]),
        rows.set_column(1, rows.schema.field(1), [["clean"] * 10 + ["linf 1/5"] * 10]),
        rows.set_column(2, rows.schema.field(2), [np.roll(good.column("label"), 1)]),
    ]
    with store.open(made.plan, made.ids, made.labels) as run:
        for table in wrong:
            with pytest.raises(StoreError, match="are not the planned ones"):
                run.put(0, PredictionTable(table.combine_chunks()), made.facts)
        assert run.missing == [0, 1, 2]
    assert not list(folder_of(store, made).glob("s0*"))


def flips(data: bytes, count: int, seed: int) -> list[bytes]:
    """So many copies with one bit flipped, at places drawn without replacement."""
    found = []
    for place in random.Random(seed).sample(range(len(data) * 8), count):
        changed = bytearray(data)
        changed[place // 8] ^= 1 << (place % 8)
        found.append(bytes(changed))
    return found


@pytest.mark.parametrize("name", ["s00001.parquet", "s00001.json", "result.json"])
def test_no_flipped_bit_is_read_in_silence(store: Store, made: Made, name: str) -> None:
    """E3: 300 flips in each kind of file, each refused by an error that names the file."""
    made.into(store)
    path = folder_of(store, made) / name
    data = path.read_bytes()
    silent = []
    for number, changed in enumerate(flips(data, 300, seed=1)):
        path.write_bytes(changed)
        try:
            store.read(made.key.digest)
        except StoreError as error:
            if name not in str(error) and "s00001.parquet" not in str(error):
                silent.append((number, str(error)))
        else:
            silent.append((number, "no error"))
    assert silent == []
    path.write_bytes(data)
    assert store.read(made.key.digest) is not None


def test_page_checksums_alone_catch_flips_that_plain_parquet_reads_wrong(made: Made) -> None:
    """The control: without checksums flips change numbers in silence; with them hardly one does, in a
    header, which they do not cover. The hash beside the file catches that too."""
    table = made.shard(0)
    plain = io.BytesIO()
    pq.write_table(table.table, plain, compression="none")

    def wrong(data: bytes) -> int:
        count = 0
        for changed in flips(data, 300, seed=2):
            try:
                count += not decode(changed, "x").table.equals(table.table)
            except StoreError:
                continue
        return count

    unchecked = wrong(plain.getvalue())
    assert unchecked > 10
    assert 10 * wrong(encode(table)) < unchecked


@pytest.mark.parametrize("name", ["s00001.parquet", "s00001.json", "result.json", "plan.json"])
def test_damage_is_quarantined_and_made_again(
    store: Store, made: Made, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A damaged file is kept aside, its shard alone is measured again, and the bytes are as before."""
    made.into(store)
    before = files(store.root, facts=True)
    path = folder_of(store, made) / name
    path.write_bytes(flips(path.read_bytes(), 1, seed=3)[0])
    if name == "plan.json":
        (folder_of(store, made) / "result.json").unlink()
    with caplog.at_level(logging.WARNING), store.open(made.plan, made.ids, made.labels) as run:
        assert run.finished is None
        assert run.missing == ([1] if name.startswith("s") else [])
    assert "moved to runs/quarantine/" in caplog.text
    made.into(store)
    after = files(store.root, facts=True)
    assert {key: after[key] for key in before} == before
    assert all(key.startswith("quarantine/") for key in set(after) - set(before))


def test_two_writers_without_locks_agree(
    store: Store, made: Made, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """E5 with locks off: the first rows stay, the second writer finds them whole and goes on."""
    monkeypatch.setattr(fcntl, "flock", lambda *_: None)
    with (
        caplog.at_level(logging.WARNING),
        store.open(made.plan, made.ids, made.labels) as first,
        store.open(made.plan, made.ids, made.labels) as second,
    ):
        for index in range(3):
            first.put(index, made.shard(index), made.facts)
            second.put(index, made.shard(index), FACTS.model_copy(update={"seconds": 77.0}))
        assert first.commit() == second.commit()
    assert caplog.text == ""
    stored = store.read(made.key.digest)
    assert stored is not None
    assert stored.facts.seconds == 1.5


def test_a_second_writer_that_disagrees_is_logged_and_loses(
    store: Store, made: Made, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fcntl, "flock", lambda *_: None)
    rows = made.shard(0).table
    other = PredictionTable(rows.set_column(3, rows.schema.field(3), [np.full(20, 3, np.int32)]))
    with (
        caplog.at_level(logging.WARNING),
        store.open(made.plan, made.ids, made.labels) as first,
        store.open(made.plan, made.ids, made.labels) as second,
    ):
        first.put(0, made.shard(0), made.facts)
        second.put(0, other, made.facts)
    assert "another writer's predictions differ; the first stay" in caplog.text
    _, kept = store.read_shard(made.key.digest, 0)
    assert kept.table.equals(rows)


def test_a_shard_without_its_report_is_taken_over_or_replaced(store: Store, made: Made) -> None:
    """A writer died between the two files of a shard: whole rows are kept, damaged ones are not."""
    folder = folder_of(store, made)
    for data in (encode(made.shard(0)), encode(made.shard(0))[:-30], b"", encode(made.shard(1))):
        durable.make_folder(folder)
        (folder / "s00000.parquet").write_bytes(data)
        with store.open(made.plan, made.ids, made.labels) as run:
            assert 0 in run.missing
            run.put(0, made.shard(0), made.facts)
        _, table = store.read_shard(made.key.digest, 0)
        assert table.table.equals(made.shard(0).table)
        for path in folder.glob("s0*"):
            path.unlink()


def _complete(root: str, made: Made) -> None:
    made.into(Store(Path(root)))


def test_four_runners_leave_one_run(tmp_path: Path, made: Made) -> None:
    """E5: four processes complete the same runs at once."""
    alone, together = Store(tmp_path / "alone" / "runs"), Store(tmp_path / "together" / "runs")
    runs = [Made(made.key.model_copy(update={"seed": seed}), made.ids, made.labels) for seed in range(4)]
    for run in runs:
        run.into(alone)
        runners = [FORK.Process(target=_complete, args=(str(together.root), run)) for _ in range(4)]
        for runner in runners:
            runner.start()
        for runner in runners:
            runner.join()
            assert runner.exitcode == 0
    assert files(together.root, facts=True) == files(alone.root, facts=True)


def test_a_full_disk_at_any_write_leaves_whole_files_and_no_leftovers(
    store: Store, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E4: the disk fills up at the n-th flush, for every n; the same command goes on later."""
    real = os.fsync
    for allowed in range(100):
        left = [allowed]

        def fill(handle: int, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise OSError(28, "No space left on device")
            real(handle)

        key = made.key.model_copy(update={"seed": allowed})
        run = Made(key, made.ids, made.labels)
        monkeypatch.setattr(os, "fsync", fill)
        try:
            run.into(store)
        except DiskFullError:
            assert not list(store.root.rglob(f"{durable.TEMPORARY}*"))
        else:
            break
        finally:
            monkeypatch.setattr(os, "fsync", real)
        reference = Store(store.root.parent / f"reference{allowed}" / "runs")
        run.into(store)
        run.into(reference)
        assert files(store.folder(key.digest)) == files(reference.folder(key.digest))
    assert 15 < allowed < 60


KEY_CHANGES = {
    "code": 2,
    "model_digest": "a" * 64,
    "weights_sha256": "a" * 64,
    "dataset_digest": "a" * 64,
    "data_fingerprint": "a" * 64,
    "labels_digest": "a" * 64,
    "protocol_digest": "a" * 64,
    "seed": 1,
    "precision": "bfloat16",
    "shard_size": 5,
    "software": {"torch": "9.9"},
}


def test_every_part_of_a_key_makes_another_run_beside_the_old_one(store: Store, made: Made) -> None:
    """B063: revision, protocol, preprocessing, library version each count; old results stay."""
    made.into(store)
    for name, value in KEY_CHANGES.items():
        key = RunKey.model_validate({**made.key.model_dump(), name: value})
        with store.open(Made(key, made.ids, made.labels).plan, made.ids, made.labels) as run:
            assert run.finished is None, name
        Made(key, made.ids, made.labels).into(store)
    with store.open(made.plan, made.ids, made.labels) as run:
        assert run.finished is not None
    assert len(store.digests()) == len(KEY_CHANGES) + 1
    assert all(store.read(digest) is not None for digest in store.digests())


def test_a_moved_run_is_refused(store: Store, made: Made) -> None:
    """A run under a folder of another key is not taken for that key's."""
    made.into(store)
    other = made.key.model_copy(update={"seed": 1}).digest
    durable.make_folder(store.folder(other).parent)
    folder_of(store, made).rename(store.folder(other))
    with pytest.raises(StoreError, match=r"result\.json: plan\.key_digest: expected the folder's name"):
        store.read(other)


def test_the_current_run_of_a_cell_is_named_and_checked(store: Store, made: Made) -> None:
    store.set_current("net/pgd-v1--digits", made.key)
    (path,) = store.current().values()
    assert list(store.current()) == ["net/pgd-v1--digits"]
    assert store.current_key(path) == made.key
    path.write_bytes(jsons.seal(made.key).replace(b'"seed": 0', b'"seed": 1'))
    with pytest.raises(StoreError, match=r"runs/current/net/pgd-v1--digits\.json: sha256"):
        store.current_key(path)
