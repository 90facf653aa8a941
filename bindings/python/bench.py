"""What Python costs over the Rust client: both do the same in one run, by turns, on one open store.

Run by `scripts/bindings python_bench`; needs the native module with its feature `bench`.
"""

import argparse
import asyncio
import statistics
import tempfile
import time

import tyr
from tyr import _tyr

SMALL, LARGE, BATCH = 100, 1 << 20, 64
ONE, MANY = "one at a time", "batched and asyncio"
BOUNDS = {ONE: 3.0, MANY: 1.5, "1 MiB": 1.05}


def rounds(store, keyspace, aio):
    """The operations: what each is called, its kind, how often it is done in a round, the bytes of each, and what Python does."""
    small, large, add = bytes(SMALL), bytes(LARGE), tyr.Transform.add(1, "u64")
    buffer, keys = bytearray(LARGE), [f"many/{number}" for number in range(BATCH)]
    items = {key: small for key in keys}

    async def read(key, count):
        operation = aio.read
        for _ in range(count):
            await operation(key)

    async def put(key, count):
        operation = aio.put
        for _ in range(count):
            await operation(key, small)

    def at_once(task):
        def do(count):
            async def main():
                await asyncio.gather(*[task(key, count // BATCH) for key in keys])

            asyncio.run(main())

        return do

    def times(call, *arguments):
        def do(count):
            for _ in range(count):
                call(*arguments)

        return do

    scale = 1 if not store.is_cluster else 0.1
    return [
        ("stat", ONE, int(20000 * scale), SMALL, times(keyspace.stat, "small")),
        ("read", ONE, int(20000 * scale), SMALL, times(keyspace.read, "small")),
        ("put", ONE, int(5000 * scale), SMALL, times(keyspace.put, "put", small)),
        ("append", ONE, int(5000 * scale), SMALL, times(keyspace.append, "log", small)),
        ("transform", ONE, int(5000 * scale), 8, times(keyspace.transform, "n", 0, add)),
        ("read many", MANY, int(500 * scale), SMALL, times(keyspace.read_many, keys)),
        ("put many", MANY, int(200 * scale), SMALL, times(keyspace.put_many, items)),
        ("asyncio read", MANY, int(64000 * scale), SMALL, at_once(read)),
        ("asyncio put", MANY, int(6400 * scale), SMALL, at_once(put)),
        ("put large", "1 MiB", int(60 * max(scale, 0.5)), LARGE, times(keyspace.put, "large", large)),
        ("read large", "1 MiB", int(200 * max(scale, 0.5)), LARGE, times(keyspace.read_view, "large")),
        ("read large into a buffer", "1 MiB", int(200 * max(scale, 0.5)), LARGE, times(keyspace.read_into, "large", buffer)),
    ]


def measure(place: str, durability: str, repeats: int, options: dict) -> None:
    with tyr.open(place, **options) as store:
        name = f"bench-{durability}"
        if any(each.name == name for each in store.keyspaces()):
            store.drop_keyspace(name)
        keyspace = store.create_keyspace(name, durability=durability)
        aio = asyncio.run(_aio(store, name))
        keyspace.put("small", bytes(SMALL))
        keyspace.put("large", bytes(LARGE))
        keyspace.put_many({f"many/{number}": bytes(SMALL) for number in range(BATCH)})
        where = "cluster" if store.is_cluster else f"directory, durability {durability}"
        print(f"\n{where}: {SMALL} B small, {BATCH} in a batch or at once, medians of {repeats} rounds by turns")
        print(f"{'':26}{'rust us':>10}{'python us':>11}{'ratio':>7}{'wanted':>8}")
        for what, kind, count, size, python in rounds(store, keyspace, aio):
            compare(store, keyspace, aio, what, kind, count, size, python, repeats)
        store.drop_keyspace(name)


def compare(store, keyspace, aio, what, kind, count, size, python, repeats):
    ours, theirs = [], []
    for number in range(repeats + 1):
        theirs.append(_tyr._rounds(store, keyspace, aio, what, count, size, BATCH))
        began = time.perf_counter()
        python(count)
        ours.append(time.perf_counter() - began)
    # The first of each warms up.
    rust, own = (statistics.median(each[1:]) / count * 1e6 for each in (theirs, ours))
    # Of neighbours: what else the machine does changes from round to round.
    ratio = statistics.median(mine / other for mine, other in zip(ours[1:], theirs[1:], strict=True))
    bound = BOUNDS[kind]
    above = "" if ratio <= bound else "  above"
    print(f"{what:26}{rust:10.2f}{own:11.2f}{ratio:7.2f}{bound:8.2f}{above}", flush=True)


async def _aio(store, name):
    return await store.aio.keyspace(name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cluster", help="the URL of a cluster to measure besides")
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tyr-bench-") as directory:
        for durability in ("memory", "disk"):
            measure(f"{directory}/{durability}", durability, given.rounds, {"segment_size": 16 << 20})
    if given.cluster:
        measure(given.cluster, "disk", given.rounds, {})


if __name__ == "__main__":
    main()
