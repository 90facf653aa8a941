"""zarr, xarray, and dask through the store, and transactions over arrays."""

import dask.array as da
import numpy as np
import pytest
import tyr
import xarray as xr
import zarr
from tyr.zarr import TyrStore
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
