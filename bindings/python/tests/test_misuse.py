"""What callers do wrong: an exception that says so, and nothing is lost."""

import asyncio
import ctypes
import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest
import tyr


def program(text: str, *arguments: str, status: int = 0) -> str:
    """Runs a program of its own, which ends with this status, and returns what it printed."""
    command = [sys.executable, "-c", textwrap.dedent(text), *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode == status, (ended.returncode, ended.stdout, ended.stderr)
    assert "Fatal" not in ended.stderr and "panicked" not in ended.stderr, ended.stderr
    return ended.stdout


def test_closed_handles_say_so(place):
    store = tyr.open(place, segment_size=1 << 20)
    events = store.create_keyspace("events")
    events.put("a", b"x")
    snapshot, transaction = store.snapshot(events), store.begin()
    transaction.put(events, "b", b"y")
    store.close()
    for call in (
        lambda: events.read("a"),
        lambda: events.put("a", b"z"),
        lambda: snapshot.read(events, "a"),
        transaction.commit,
        store.begin,
        store.keyspaces,
        lambda: store.keyspace("events"),
    ):
        with pytest.raises(tyr.Unavailable):
            call()
    # As often as one likes, as with files.
    store.close()
    assert events.name == "events" and "events" in repr(events) and place in repr(store)
    snapshot.close()
    # Though the transaction is still there.
    with tyr.open(place, segment_size=1 << 20) as again:
        assert again.keyspace("events").read("a") == b"x"
        assert not again.keyspace("events").exists("b")
    transaction.rollback()
    with pytest.raises(tyr.Unavailable, match="closed before the transaction ended"):
        transaction.commit()


def test_a_block_whose_store_is_closed_in_it_does_not_seem_to_have_committed(place):
    store = tyr.open(place, segment_size=1 << 20)
    events = store.create_keyspace("events")
    with pytest.raises(tyr.Unavailable, match="closed before the transaction ended"):
        with store.transaction() as transaction:
            transaction.put(events, "a", b"x")
            store.close()


def test_a_store_within_another_time_is_closed_with_it(place):
    store = tyr.open(place, segment_size=1 << 20)
    events = store.create_keyspace("events")
    quick = store.within(5.0)
    quicker, kept, begun = quick.within(1.0), quick.keyspace("events"), quick.begin()
    begun.put(kept, "a", b"x")
    assert not store.closed and not quick.closed and not quicker.aio.closed
    store.close()
    assert store.closed and quick.closed and quicker.closed and quicker.aio.closed
    for call in (quick.keyspaces, lambda: kept.read("a"), begun.commit):
        with pytest.raises(tyr.Unavailable):
            call()
    quicker.close()
    # Though all of them are still there.
    again = tyr.open(place, segment_size=1 << 20)
    quick = again.within(5.0)
    events = again.keyspace("events")
    quick.close()
    assert again.closed
    with pytest.raises(tyr.Unavailable):
        events.exists("a")
    with tyr.open(place, segment_size=1 << 20) as store:
        assert not store.keyspace("events").exists("a")


def test_a_run_ends_when_its_store_is_closed(place):
    store = tyr.open(place, segment_size=1 << 20)
    events = store.create_keyspace("events")
    idle, tries = store._tries(), store.retrying()
    attempt = next(tries)
    transaction = attempt.__enter__()
    transaction.put(events, "a", b"x")
    store.close()
    # Though the tries and the transaction are still there.
    with tyr.open(place, segment_size=1 << 20) as again:
        assert not again.keyspace("events").exists("a")
    with pytest.raises(tyr.Unavailable, match="closed before the transaction ended"):
        transaction.commit()
    with pytest.raises(tyr.Unavailable, match="closed before the run ended"):
        attempt.__exit__(None, None, None)
    with pytest.raises(tyr.Unavailable, match="closed before the run ended"):
        idle.begin()


def test_an_exception_is_passed_on_though_the_store_was_closed_in_its_run(place):
    store = tyr.open(place, segment_size=1 << 20)
    with pytest.raises(KeyError):
        for attempt in store.retrying():
            with attempt:
                store.close()
                raise KeyError
    tyr.open(place, segment_size=1 << 20).close()


@pytest.mark.parametrize("name", ["http://127.0.0.1:4801", "Tyr://a:1", "s3://bucket"])
def test_a_url_of_something_else_is_no_directory(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(tyr.Invalid, match="a scheme that no store has"):
        tyr.open(name)
    assert not list(tmp_path.iterdir())


def test_a_transaction_that_has_ended_says_so(store, events):
    transaction = store.begin()
    transaction.put(events, "a", b"x")
    transaction.commit()
    for call in (transaction.commit, lambda: transaction.read(events, "a"), transaction.pending):
        with pytest.raises(tyr.Invalid, match="has ended"):
            call()
    transaction.rollback()
    with store.snapshot(events) as snapshot:
        pass
    with pytest.raises(tyr.Invalid, match="closed"):
        snapshot.read(events, "a")


@pytest.mark.parametrize("key", [None, 5, 1.5, ["a"], object()])
def test_keys_of_wrong_types_are_refused(events, key):
    with pytest.raises(TypeError):
        events.read(key)


@pytest.mark.parametrize("data", [None, 5, "text", ["a"], object()])
def test_data_of_wrong_types_is_refused(events, data):
    with pytest.raises(TypeError):
        events.put("a", data)
    assert not events.exists("a")


def test_numbers_out_of_bounds_are_invalid(store, events, place):
    events.put("a", b"x")
    for call in (
        lambda: events.read("a", -1),
        lambda: events.read("a", 0, 1 << 64),
        lambda: events.read("a", 2, 1),
        lambda: events.write("a", 1 << 63, b"y"),
        lambda: events.truncate("a", (1 << 64) + 5),
        lambda: events.punch("a", 2, 1),
        lambda: events.scan(limit=-1),
        lambda: events.scan(limit=1 << 64),
        lambda: store.snapshot(events).scan(events, limit=-1),
        lambda: store.create_keyspace("more", quota=-1),
        lambda: store.create_keyspace("more", chunk_size=-1),
        lambda: store.alter_keyspace("events", quota=-1),
        lambda: tyr.open(place + "-more", segment_size=-1),
        lambda: tyr.open(place + "-more", data_cache=-1),
        lambda: tyr.open(place + "-more", index_cache=1 << 64),
        lambda: tyr.Transform.add(256, "u8"),
        lambda: tyr.Transform.add(1, "u128"),
        lambda: tyr.Transform.and_(1.5, "f64"),
        lambda: events.put(b"", b"x"),
        lambda: events.put(b"k" * 4097, b"x"),
    ):
        with pytest.raises(tyr.Invalid):
            call()
    with pytest.raises(TypeError):
        events.read("a", 1.5)
    with pytest.raises(TypeError):
        tyr.Transform.add("1", "u64")
    assert events.read("a") == b"x"


def test_a_number_does_not_become_infinity(events):
    for number in (1e39, -1e39, 3.5e38, 10**39):
        with pytest.raises(tyr.Invalid, match="does not fit the type f32"):
            tyr.Transform.add(number, "f32")
        with pytest.raises(tyr.Invalid, match="does not fit the type f32"):
            tyr.Transform.compare_and_swap(0.0, number, "f32")
    events.put("a", bytes(4))
    largest = float(np.finfo(np.float32).max)
    for number in (largest, float("-inf"), 1e-50):
        events.transform("a", 0, tyr.Transform.swap(number, "f32"))
        assert np.frombuffer(events.read("a"), "<f4")[0] == np.float32(number)


def test_huge_lengths_are_refused_before_memory_is(events):
    events.put("a", b"x")
    events.truncate("a", 1 << 62)
    for read in (events.read, events.read_view):
        with pytest.raises((tyr.Invalid, MemoryError)):
            read("a")
    assert events.read("a", 0, 3) == b"x\0\0"
    assert events.read("a", (1 << 62) - 2) == b"\0\0"


def test_buffers_are_used_where_they_are(events):
    numbers = np.arange(100_000, dtype="f8")
    events.put("numbers", numbers)
    view = events.read_view("numbers")
    back = np.frombuffer(view)
    assert np.shares_memory(back, np.frombuffer(view)) and (back == numbers).all()
    back[0] = 5  # owned by who read it
    assert events.read("numbers", 0, 8) == bytes(8)
    target = np.zeros((10, 10))
    assert events.read_into("numbers", target, 8) == 800
    assert target[9, 9] == 100
    assert events.read_into("numbers", memoryview(bytearray(16)), 799_992) == 8
    del view
    gc.collect()
    assert back[1] == 1


def test_scattered_buffers_are_written_in_order_and_not_read_into(events):
    grid = np.arange(12, dtype="u1").reshape(3, 4)
    events.put("column", grid[:, 1])
    assert events.read("column") == bytes([1, 5, 9])
    events.put("fortran", np.asfortranarray(grid))
    assert events.read("fortran") == grid.tobytes()
    with pytest.raises(tyr.Invalid, match="contiguous"):
        events.read_into("column", grid[:, 1])
    with pytest.raises(TypeError):
        events.read_into("column", b"not writable")
    with pytest.raises(TypeError):
        events.read_into("column", "text")


def test_what_has_no_dimensions_or_no_strides_is_written_and_read_into(events):
    events.put("scalar", np.array(3.5))
    assert events.read("scalar") == np.float64(3.5).tobytes()
    target = np.empty(())
    assert events.read_into("scalar", target) == 8
    assert target == 3.5
    numbers = (ctypes.c_int * 3)(1, 2, 3)
    events.put("numbers", numbers)
    assert events.read("numbers") == bytes(numbers)
    with pytest.raises(TypeError, match="Python objects"):
        events.put("scalar", np.array("text", dtype=object))


def test_names_of_fields_are_no_types(events):
    prices = np.zeros(3, [("Open", "f8"), ("Close", "f8")])
    prices["Open"] = 1.5
    events.put("prices", prices)
    back = np.empty_like(prices)
    assert events.read_into("prices", back) == prices.nbytes
    assert (back == prices).all()
    with pytest.raises(TypeError, match="Python objects"):
        events.put("prices", np.zeros(3, [("Open", "f8"), ("what", "O")]))


def test_empty_buffers_are_fine(events):
    events.put("empty", b"")
    events.put("none", np.zeros(0))
    assert events.read("empty") == b"" and bytes(events.read_view("none")) == b""
    assert events.read_into("empty", bytearray()) == 0


def test_released_buffers_are_refused(events):
    view = memoryview(bytearray(8))
    view.release()
    with pytest.raises(ValueError):
        events.put("a", view)
    with pytest.raises(ValueError):
        events.read_into("a", view)
    assert not events.exists("a")


async def test_a_buffer_in_use_cannot_be_resized(store, events):
    keyspace = await store.aio.keyspace("events")
    data = bytearray(b"x" * 300_000)
    operation = keyspace.put("a", data)
    with pytest.raises(BufferError):
        data.clear()
    await operation
    data.clear()
    assert (await keyspace.stat("a")).size == 300_000


def test_a_buffer_that_changes_while_it_is_written_is_stored_whole(store, events):
    data, stop = bytearray(200_000), threading.Event()

    def scribble():
        while not stop.is_set():
            for place in range(0, len(data), 4096):
                data[place] = (data[place] + 1) % 256

    thread = threading.Thread(target=scribble)
    thread.start()
    try:
        for number in range(50):
            events.put(f"a/{number}", data)
    finally:
        stop.set()
        thread.join()
    assert store.check()["damage"] == []
    assert all(len(events.read(f"a/{number}")) == 200_000 for number in range(50))


def test_keyspaces_of_other_stores_are_refused(store, events, tmp_path):
    with tyr.open(tmp_path / "other", segment_size=1 << 20) as other:
        theirs = other.create_keyspace("events")
        with pytest.raises(tyr.Invalid), store.transaction() as transaction:
            transaction.put(theirs, "a", b"x")
    with pytest.raises(TypeError):
        store.begin().put(store.aio, "a", b"x")


def test_settings_and_options_that_are_not_known_are_refused(store, place, tmp_path):
    with pytest.raises(tyr.Invalid):
        store.create_keyspace("a", durability="paper")
    with pytest.raises(tyr.Invalid):
        store.create_keyspace("a", chunk_size=5)
    with pytest.raises(tyr.Invalid):
        store.create_keyspace("no/name")
    with pytest.raises(tyr.Unavailable):
        tyr.open(place)
    with pytest.raises(tyr.Invalid):
        tyr.open(tmp_path / "x", create="perhaps")
    with pytest.raises(TypeError):
        tyr.open(tmp_path / "x", colour="red")
    with pytest.raises(tyr.Invalid):
        tyr.open("tyr://host")
    with pytest.raises(tyr.Invalid):
        store.within(-1.0)


# Exceptions in callbacks.


def test_an_exception_in_a_run_rolls_back_and_is_passed_on(store, events):
    class Mine(Exception):
        pass

    def body(transaction):
        transaction.put(events, "a", b"x")
        raise Mine("planned")

    with pytest.raises(Mine, match="planned"):
        store.run(body)
    with pytest.raises(Mine), events.transaction() as transaction:
        transaction.put("a", b"x")
        raise Mine
    with pytest.raises(Mine):
        for attempt in events.retrying():
            with attempt as transaction:
                transaction.put("a", b"x")
                raise Mine
    with pytest.raises(TypeError):
        store.run(5)
    assert not events.exists("a")
    assert store.run(lambda transaction: transaction.put(events, "a", b"x")) is None
    assert events.read("a") == b"x"


def test_who_commits_in_a_run_is_told_not_to(store, events):
    with pytest.raises(tyr.Invalid, match="by itself"):
        store.run(lambda transaction: transaction.commit())


def test_a_coroutine_function_is_not_run_as_one_that_blocks(store, events):
    async def body(transaction):
        transaction.put(events, "a", b"x")

    for call in (lambda: store.run(body), lambda: events.run(body), store.transactional(body)):
        with pytest.raises(TypeError, match="aio"):
            call()
    assert not events.exists("a")


def test_a_conflict_in_the_body_runs_it_again(store, events):
    events.put("n", b"0")
    tries = []

    def body(transaction):
        tries.append(transaction.read(events, "n"))
        if len(tries) == 1:
            raise tyr.Conflict("met by the body")
        return len(tries)

    assert store.run(body) == 2


# Asyncio.


async def test_an_operation_is_awaited_once(store, events):
    keyspace = await store.aio.keyspace("events")
    operation = keyspace.put("a", b"x")
    await operation
    with pytest.raises(RuntimeError, match="already"):
        await operation


async def test_what_is_never_awaited_does_nothing_and_warns(store, events):
    keyspace = await store.aio.keyspace("events")
    with pytest.warns(RuntimeWarning, match="never awaited"):
        keyspace.put("a", b"x")
        gc.collect()
    assert not await keyspace.exists("a")


async def test_cancelled_operations_leave_everything_usable(store, events):
    keyspace = await store.aio.keyspace("events")
    for number in range(50):
        tasks = [asyncio.create_task(keyspace.append(f"log/{n}", b"x" * 10_000)) for n in range(4)]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            assert isinstance(outcome, int | asyncio.CancelledError)
    sizes = [stat.size for stat in await keyspace.stats([f"log/{n}" for n in range(4)]) if stat]
    assert all(size % 10_000 == 0 for size in sizes)
    async with asyncio.timeout(30):
        await keyspace.put("after", b"all")


async def test_timeouts_end_a_wait(store, events):
    keyspace = await store.aio.keyspace("events")
    with pytest.raises(asyncio.TimeoutError):
        async with asyncio.timeout(0):
            await keyspace.append("log", b"x" * 100_000)
    await keyspace.put("after", b"all")


def test_waiting_needs_a_loop(store, events):
    operation = asyncio.run(_events(store)).put("a", b"x")
    with pytest.raises(RuntimeError, match="loop"):
        operation.send(None)


async def _events(store):
    return await store.aio.keyspace("events")


def test_a_store_is_used_from_one_loop_after_another(store, events):
    async def add():
        keyspace = await store.aio.keyspace("events")
        return await keyspace.append("log", b"x")

    assert [asyncio.run(add()) for _ in range(5)] == [0, 1, 2, 3, 4]


def test_threads_with_loops_and_blocking_ones_share_a_store(store, events):
    def blocks():
        for _ in range(50):
            events.transform("n", 0, tyr.Transform.add(1, "u64"))

    def awaits():
        async def main():
            keyspace = await store.aio.keyspace("events")
            await asyncio.gather(*[keyspace.transform("n", 0, tyr.Transform.add(1, "u64")) for _ in range(50)])

        asyncio.run(main())

    threads = [threading.Thread(target=each) for each in (blocks, awaits) * 3]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert int.from_bytes(events.read("n"), "little") == 300


# The end of a process, forks, and signals.


def test_the_interpreter_ends_with_operations_in_flight(place):
    text = """
        import asyncio, sys, threading, tyr
        store = tyr.open(sys.argv[1], segment_size=1 << 20)
        events = store.create_keyspace("events")
        begun = threading.Barrier(5)

        def write(name):
            begun.wait()
            while True:
                try:
                    events.append(name, b"x" * 100)
                except tyr.Unavailable:
                    return

        def loop():
            async def main():
                keyspace = await store.aio.keyspace("events")
                begun.wait()
                while True:
                    await keyspace.append("async", b"x" * 100)
            asyncio.run(main())

        for name in "abc":
            threading.Thread(target=write, args=(name,), daemon=True).start()
        threading.Thread(target=loop, daemon=True).start()
        begun.wait()
        offset = events.append("last", b"told")
        print(offset)
    """
    for _ in range(3):
        printed = program(text.replace("create_keyspace", "keyspace") if os.path.exists(place) else text, place)
        assert printed.strip().isdigit()
    with tyr.open(place, segment_size=1 << 20) as store:
        events = store.keyspace("events")
        assert events.read("last") == b"told" * 3
        assert all(entry.size % 100 == 0 for entry in events.scan() if entry.name != "last")
        assert store.check()["damage"] == []


def test_a_store_that_nobody_closes_is_closed_at_the_end(place):
    text = """
        import sys, tyr
        store = tyr.open(sys.argv[1], segment_size=1 << 20)
        memory = store.create_keyspace("memory", durability="memory")
        memory.put("a", b"kept")
    """
    program(text, place)
    with tyr.open(place, segment_size=1 << 20) as store:
        assert store.keyspace("memory").read("a") == b"kept"


def test_a_store_of_which_only_a_handle_within_another_time_is_left_is_closed_at_the_end(place):
    text = """
        import sys, tyr
        store = tyr.open(sys.argv[1], segment_size=1 << 20).within(5.0)
        memory = store.create_keyspace("memory", durability="memory")
        memory.put("a", b"kept")
    """
    program(text, place)
    with tyr.open(place, segment_size=1 << 20) as store:
        assert store.keyspace("memory").read("a") == b"kept"


def test_a_child_is_told_to_open_the_store_again(place):
    text = """
        import os, sys, tyr, tyr.fs
        store = tyr.open(sys.argv[1], segment_size=1 << 20)
        events = store.create_keyspace("events")
        events.put("a", b"x")
        fs = tyr.fs.TyrFileSystem(store)
        assert fs.cat_file("events/a") == b"x"
        transaction = store.begin()
        transaction.put(events, "b", b"y")
        child = os.fork()
        if not child:
            told = 0
            store.close()
            for call in (lambda: events.read("a"), lambda: store.keyspaces(), transaction.commit):
                try:
                    call()
                except tyr.Unavailable as error:
                    told += "forked" in str(error)
            try:
                fs.cat_file("events/a")
            except RuntimeError as error:
                told += "fork" in str(error)
            with tyr.open(sys.argv[1] + "-child", segment_size=1 << 20) as own:
                own.create_keyspace("mine").put("a", b"z")
                told += tyr.fs.TyrFileSystem(own).cat_file("mine/a") == b"z"
            sys.exit(told)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
        transaction.commit()
        print(events.read("a") + events.read("b"))
    """
    assert program(text, place).strip() == "b'xy'"


def test_a_file_that_was_open_before_a_fork_says_so_in_the_child(place):
    text = """
        import gc, os, signal, sys, tyr, tyr.fs
        store = tyr.open(sys.argv[1], segment_size=1 << 20)
        fs = tyr.fs.TyrFileSystem(store)
        fs.mkdir("events")
        fs.pipe_file("events/a", b"x" * 100)
        read, written, kept = fs.open("events/a"), fs.open("events/b", "wb"), fs.open("events/c", "wb", autocommit=False)
        text, packed = fs.open("events/d", "w"), fs.open("events/e", "wb", compression="gzip")
        left = [fs.open("events/a"), fs.open("events/f", "wb"), fs.open("events/g", "w")]
        for file in (written, kept, left[1]):
            file.write(b"y")
        for file in (text, left[2]):
            file.write("y")
        packed.write(b"y")
        kept.close()
        child = os.fork()
        if not child:
            # It is ended rather than waited for if it waits for threads that it does not have.
            signal.alarm(30)
            sys.unraisablehook = lambda unraisable: os._exit(100)
            told = 0
            for call in (read.read, lambda: written.write(b"z"), lambda: written.flush(force=True), kept.commit):
                try:
                    call()
                except tyr.Unavailable as error:
                    told += "forked" in str(error)
            with read, written, text, packed:
                pass
            try:
                with left[1]:
                    raise KeyError
            except KeyError:
                told += 1
            kept.discard()
            del left
            gc.collect()
            os._exit(told)
        status = os.waitpid(child, 0)[1]
        assert os.WIFEXITED(status) and os.WEXITSTATUS(status) == 5, status
        for file in (written, text, packed, *left[1:]):
            file.close()
        kept.commit()
        print(read.read().count(b"x"), fs.cat(["events/b", "events/c", "events/d", "events/f", "events/g"]).values())
        print(fs.open("events/e", compression="gzip").read())
    """
    ended = program(text, place)
    assert ended == "100 dict_values([b'y', b'y', b'y', b'y', b'y'])\nb'y'\n", ended


def test_a_signal_ends_a_wait_for_a_cluster(tmp_path):
    text = """
        import os, signal, socket, threading, tyr
        signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started this may have it ignored
        sockets = socket.socket()
        sockets.bind(("127.0.0.1", 0))
        sockets.listen()
        place = "tyr://127.0.0.1:%d" % sockets.getsockname()[1]

        def answer_not():
            sockets.accept()
            os.kill(os.getpid(), signal.SIGINT)

        threading.Thread(target=answer_not, daemon=True).start()
        try:
            tyr.open(place, connect_timeout=1000.0)
        except KeyboardInterrupt:
            print("interrupted")
    """
    assert program(text).strip() == "interrupted"


def test_a_signal_handler_that_does_not_raise_ends_nothing(store, events):
    seen = []
    before = signal.signal(signal.SIGUSR1, lambda *_: seen.append(1))
    try:
        for _ in range(20):
            os.kill(os.getpid(), signal.SIGUSR1)
            events.append("log", b"x")
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert events.stat("log").size == 20 and seen


def test_python_objects_are_no_bytes(events):
    events.put("a", bytes(100))
    objects = np.zeros(3, dtype=object)
    with pytest.raises(TypeError, match="Python objects"):
        events.read_into("a", objects)
    for given in (objects, objects[::2], np.zeros(2, dtype=[("n", "i8"), ("text", object)])):
        with pytest.raises(TypeError, match="Python objects"):
            events.put("b", given)
    assert not events.exists("b")


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_a_loop_of_tries_that_is_left_after_a_conflict_says_so(events):
    events.put("n", b"0")
    tries = events.retrying()
    with next(tries) as transaction:
        number = int(transaction.read("n"))
        events.put("n", b"100")
        transaction.put("n", b"%d" % (number + 1))
    with pytest.raises(tyr.Conflict, match="nothing was committed"):
        tries.close()
    assert events.read("n") == b"100"
    tries = events.retrying()
    with next(tries) as transaction:
        transaction.put("n", b"7")
    tries.close()
    assert events.read("n") == b"7"


async def test_a_loop_of_tries_that_is_left_says_so_when_awaited(store, events):
    later = await store.aio.keyspace("events")
    await later.put("n", b"0")
    tries = later.retrying()
    async with await anext(tries) as transaction:
        number = int(await transaction.read("n"))
        await later.put("n", b"100")
        await transaction.put("n", b"%d" % (number + 1))
    with pytest.raises(tyr.Conflict, match="nothing was committed"):
        await tries.aclose()
    assert await later.read("n") == b"100"


def test_the_place_of_a_store_opens_it(store, place):
    assert store.place == str(place)


def test_the_interpreter_ends_though_files_are_open(place):
    text = """
        import sys, fsspec, tyr
        store = tyr.open(sys.argv[1], segment_size=1 << 20)
        store.create_keyspace("files").put("x", b"1")
        fs = fsspec.filesystem("tyr", store=store)
        read, written = fs.open("files/x", "rb"), fs.open("files/y", "wb")
        written.write(b"2")
        class Cycle: pass
        cycle = Cycle()
        cycle.own, cycle.file = cycle, fs.open("files/x", "rb")
        print("end")
    """
    assert program(text, str(place)) == "end\n"
