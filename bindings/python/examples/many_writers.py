"""Several processes update one zarr array, each update of all its chunks at once, while others read a consistent state.

    python many_writers.py tyr://host:7700

Each writer adds one to every element, in a transaction that is run again if another writer came first. So in every state that
anybody can see, all elements are equal; and in the end they are the number of all updates, none of which is lost.
"""

import multiprocessing
import sys

import numpy as np
import zarr
from tyr.zarr import TyrStore

WRITERS, READERS, UPDATES = 3, 2, 5
SHAPE, CHUNKS = (64, 64), (32, 32)


def add_one(inside: TyrStore) -> None:
    array = zarr.open_array(inside, path="grid")
    array[:] = array[:] + 1


def write(place: str) -> None:
    arrays = TyrStore(place, "many-writers")
    for _ in range(UPDATES):
        arrays.run(add_one)


def read(place: str, states) -> None:
    arrays = TyrStore(place, "many-writers", read_only=True)
    last = 0
    while last < WRITERS * UPDATES:
        with arrays.snapshot() as frozen:
            seen = zarr.open_array(frozen, path="grid", mode="r")[:]
        assert seen.min() == seen.max() >= last, "an update was seen half, or taken back"
        last = int(seen.max())
    states.put(last)


def main(place: str) -> None:
    arrays = TyrStore(place, "many-writers")
    grid = zarr.create_array(arrays, name="grid", shape=SHAPE, chunks=CHUNKS, dtype="i8", overwrite=True)
    # Processes that are forked cannot use what was opened before; these start anew.
    context = multiprocessing.get_context("spawn")
    states = context.Queue()
    processes = [context.Process(target=write, args=(place,)) for _ in range(WRITERS)]
    processes += [context.Process(target=read, args=(place, states)) for _ in range(READERS)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    assert (np.asarray(grid[:]) == WRITERS * UPDATES).all()
    print(f"{WRITERS} writers made {WRITERS * UPDATES} updates; {READERS} readers saw each whole or not at all")


if __name__ == "__main__":
    main(sys.argv[1])
