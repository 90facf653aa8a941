"""zarr, xarray, and dask through the store, and transactions over arrays."""

import dask.array as da
import numpy as np
import pytest
import tyr
import xarray as xr
import zarr
from tyr.zarr import TyrStore
from zarr.abc.store import SuffixByteRequest
from zarr.core.sync import sync


@pytest.fixture
def arrays(store):
    return TyrStore(store, "arrays")


@pytest.fixture
def grid(arrays):
    return zarr.create_array(arrays, name="grid", shape=(40, 40), chunks=(10, 10), dtype="i8")


def test_an_update_of_many_chunks_is_one_transaction(store, arrays, grid):
    with arrays.transaction() as inside:
        zarr.open_array(inside, path="grid")[:] = 7
        assert (zarr.open_array(inside, path="grid")[:] == 7).all()
        assert (grid[:] == 0).all()
    assert (grid[:] == 7).all()
    chunks = [entry for entry in store.keyspace("arrays").scan("grid/c/")]
    assert len(chunks) == 16 and len({entry.version for entry in chunks}) == 1


def test_an_update_that_fails_changes_nothing(arrays, grid):
    with pytest.raises(RuntimeError), arrays.transaction() as inside:
        zarr.open_array(inside, path="grid")[:] = 7
        raise RuntimeError("planned")
    assert (grid[:] == 0).all()


def test_updates_that_conflict_are_run_again(arrays, grid):
    tries = []

    def add(inside):
        array = zarr.open_array(inside, path="grid")
        before = array[0, 0]
        if not tries:
            grid[0, 0] = 100
        tries.append(before)
        array[0, 0] = before + 1

    arrays.run(add)
    assert tries == [0, 100] and grid[0, 0] == 101
    with pytest.raises(tyr.Conflict), arrays.transaction() as inside:
        array = zarr.open_array(inside, path="grid")
        array[0, 0] = array[0, 0] + 1
        grid[0, 0] = 5


def test_a_snapshot_stays_as_it_is(arrays, grid):
    grid[:] = 1
    with arrays.snapshot() as frozen:
        grid[:] = 2
        seen = zarr.open_array(frozen, path="grid", mode="r")
        assert (seen[:] == 1).all()
        with pytest.raises(ValueError, match="read-only"):
            seen[0, 0] = 3


def test_groups_are_made_and_listed_in_a_transaction(arrays):
    with arrays.transaction() as inside:
        group = zarr.open_group(inside, path="experiment", mode="a")
        group.create_array("a", shape=(4,), dtype="f4")
        group.create_array("b", shape=(4,), dtype="f4")
        assert sorted(group.array_keys()) == ["a", "b"]
    assert sorted(zarr.open_group(arrays, path="experiment", mode="r").array_keys()) == ["a", "b"]


async def test_batched_writes_are_one_transaction(store, arrays):
    buffer = zarr.core.buffer.cpu.Buffer.from_bytes(b"x")
    await arrays._set_many([(f"a/{number}", buffer) for number in range(20)])
    assert len({entry.version for entry in store.keyspace("arrays").scan("a/")}) == 1
    assert await arrays.exists("a/3")


def test_xarray_writes_and_reads(arrays):
    data = xr.Dataset(
        {"temperature": (("time", "x"), np.random.default_rng(1).random((20, 8)))},
        coords={"time": np.arange(20), "x": np.arange(8)},
    )
    with arrays.transaction() as inside:
        data.to_zarr(inside, group="weather", consolidated=False)
    back = xr.open_zarr(arrays, group="weather", consolidated=False)
    xr.testing.assert_equal(back.load(), data)
    more = data.assign_coords(time=np.arange(20, 40))
    more.to_zarr(arrays, group="weather", append_dim="time", consolidated=False)
    assert xr.open_zarr(arrays, group="weather", consolidated=False).sizes["time"] == 40


def test_dask_writes_and_reads(arrays):
    numbers = da.arange(10_000, chunks=1000).reshape(100, 100).rechunk((25, 25))
    target = zarr.create_array(arrays, name="dask", shape=(100, 100), chunks=(25, 25), dtype="i8")
    da.store(numbers, target, lock=False)
    back = da.from_zarr(arrays, component="dask")
    assert int(back.sum().compute()) == sum(range(10_000))


def test_an_array_whose_keyspace_is_gone_is_not_empty(store, arrays, grid):
    grid[:] = 5
    store.drop_keyspace("arrays")
    with pytest.raises(tyr.NotFound):
        grid[:]
    other = zarr.create_array(TyrStore(store, "arrays"), name="grid", shape=grid.shape, chunks=grid.chunks, dtype=grid.dtype)
    other[:] = 42
    assert (grid[:] == 42).all()


def test_what_a_transaction_removed_is_not_listed(arrays, grid):
    grid[:] = 1
    with arrays.transaction() as inside:
        del zarr.open_group(inside)["grid"]

        async def listed():
            return [key async for key in inside.list_prefix("grid")]

        assert sync(listed()) == []


def test_a_relative_name_is_of_where_the_program_was(tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with tyr.open("named", segment_size=1 << 20) as store:
        TyrStore(store, "arrays")
        arrays = TyrStore("named", "arrays")
        monkeypatch.chdir("elsewhere")
        zarr.create_array(arrays, name="grid", shape=(4,), dtype="f8")[:] = 1
        assert (zarr.open_array(arrays, path="grid", mode="r")[:] == 1).all()
    assert not list((tmp_path / "elsewhere").iterdir())


def test_an_array_whose_keyspace_was_made_again_is_written_to_it(store, arrays):
    buffer = zarr.core.buffer.cpu.Buffer.from_bytes(b"new")
    prototype = zarr.core.buffer.default_buffer_prototype()

    async def listed(keys):
        return [key async for key in keys]

    def in_transaction():
        with arrays.transaction() as inside:
            sync(inside.set("d/new", buffer))

    def in_snapshot():
        with arrays.snapshot() as frozen:
            return sync(frozen.exists("d/old"))

    operations = [
        (lambda: sync(arrays.set("d/new", buffer)), None),
        (lambda: sync(arrays.set_if_not_exists("d/new", buffer)), None),
        (lambda: sync(arrays._set_many([("d/new", buffer)])), None),
        (lambda: sync(arrays.delete("d/old")), None),
        (lambda: sync(arrays.delete_dir("d")), None),
        (lambda: sync(arrays.exists("d/old")), True),
        (lambda: sync(arrays.getsize("d/old")), 3),
        (lambda: sync(listed(arrays.list())), ["d/old"]),
        (lambda: sync(listed(arrays.list_dir(""))), ["d"]),
        (lambda: sync(arrays.get("d/old", prototype, SuffixByteRequest(2))).to_bytes(), b"ld"),
        (in_transaction, None),
        (lambda: arrays.run(lambda inside: sync(inside.set("d/new", buffer))), None),
        (in_snapshot, True),
    ]
    for number, (operation, expected) in enumerate(operations):
        sync(arrays.set("d/other", buffer))
        store.drop_keyspace("arrays")
        again = store.create_keyspace("arrays")
        again.put("d/old", b"old")
        assert operation() == expected, number
        names = [entry.name for entry in again.scan()]
        assert names == ([] if number == 4 or number == 3 else ["d/old"] if expected is not None else ["d/new", "d/old"]), number


def test_a_directory_is_deleted_that_is_more_than_a_transaction_takes(store, arrays):
    keyspace = store.create_keyspace("arrays")
    names = [f"d/{number:03}-" + "k" * 4000 for number in range(300)]
    for name in [*names, "kept"]:
        keyspace.put(name, b"x")
    with pytest.raises(tyr.Invalid, match="too large"), arrays.transaction() as inside:
        sync(inside.delete_dir("d"))
    assert len(keyspace.scan()) == 301
    sync(arrays.delete_dir("d"))
    assert [entry.name for entry in keyspace.scan()] == ["kept"]


def test_a_keyspace_that_is_gone_is_not_empty_however_often_it_is_asked_for(store, arrays, grid):
    grid[:] = 5
    with arrays.transaction() as inside:
        store.drop_keyspace("arrays")
        with pytest.raises(tyr.NotFound, match="was dropped"):
            zarr.open_array(inside, path="grid")
    for _ in range(2):
        with pytest.raises(tyr.NotFound):
            grid[:]
    assert store.keyspaces() == []


async def test_directories_are_listed_without_what_is_in_them(store, arrays, monkeypatch):
    keyspace = store.create_keyspace("arrays")
    for first in range(0, 5000, 500):
        keyspace.put_many({f"root/big/{first + number:05}": b"" for number in range(500)})
    keyspace.put_many({f"root/{name}": b"" for name in ("big", "big-1/x", "zarr.json", "a/b/c", "a/b/d")})
    asked = []
    page = TyrStore._page

    async def counted(self, *arguments):
        asked.append(await page(self, *arguments))
        return asked[-1]

    monkeypatch.setattr(TyrStore, "_page", counted)
    names = [name async for name in arrays.list_dir("root")]
    assert sorted(names) == ["a", "big", "big-1", "zarr.json"] and sum(map(len, asked)) < 2000
    with arrays.snapshot() as frozen:
        assert [name async for name in frozen.list_dir("root/a")] == ["b"]
    assert [name async for name in TyrStore(store, "arrays", "root/a").list_dir("")] == ["b"]


def test_arrays_use_the_store_that_they_were_given(store):
    brief = store.within(5.0)
    ours, theirs = TyrStore(store, "given"), TyrStore(brief, "given")
    grid = zarr.create_array(ours, name="g", shape=(4, 4), shards=(4, 4), chunks=(2, 2), dtype="i4")
    grid[:] = 3
    for mine, arrays in ((store, ours), (brief, theirs)):
        assert arrays._shared() is mine
        assert arrays.with_read_only(True)._shared() is mine
        # A part of a shard is read by a transaction of the same store.
        assert int(zarr.open_array(arrays, path="g", mode="r")[1, 1]) == 3
        with arrays.snapshot() as frozen:
            assert frozen._shared() is mine
