"""The file system: what is its own."""

import asyncio
import contextlib
import errno
import gc
import gzip
import io
import os
import pickle
import subprocess
import sys
import threading
import time

import fsspec
import numpy as np
import pandas as pd
import pytest
import tyr
from dask.base import tokenize
from fsspec.asyn import sync
from fsspec.callbacks import Callback
from tyr.fs import TyrFileSystem


def test_it_is_registered_and_opens_urls(store, events):
    assert fsspec.get_filesystem_class("tyr") is TyrFileSystem
    with fsspec.open("tyr:///events/a", "wb", store=store) as file:
        file.write(b"by a url")
    with fsspec.open("tyr://events/a", "rt", store=store) as file:
        assert file.read() == "by a url"


@pytest.mark.parametrize(
    ("url", "place", "path"),
    [
        ("tyr://a:1,b:2/events/x/y", "tyr://a:1,b:2", "events/x/y"),
        ("tyr+tls://a:1/events", "tyr+tls://a:1", "events"),
        ("tyr://unix:/run/tyr//events/x", "tyr://unix:/run/tyr", "events/x"),
        ("tyr:///events/x", None, "events/x"),
        ("tyr://events/x", None, "events/x"),
        ("events/x/", None, "events/x"),
    ],
)
def test_urls_name_a_store_and_a_path(url, place, path):
    assert TyrFileSystem._get_kwargs_from_urls(url).get("store") == place
    assert TyrFileSystem._strip_protocol(url) == path


def test_the_environment_names_a_store(store, events, place, monkeypatch):
    tyr.fs.adopt(store)
    monkeypatch.setenv("TYR_STORE", place)
    events.put("a", b"x")
    assert fsspec.filesystem("tyr").cat_file("events/a") == b"x"


def test_ranges_are_read(fs, events):
    events.put("a", bytes(range(100)))
    assert fs.cat_file("events/a", 10, 20) == bytes(range(10, 20))
    assert fs.cat_file("events/a", -10) == bytes(range(90, 100))
    assert fs.cat_file("events/a", 5, -90) == bytes(range(5, 10))
    assert fs.cat_file("events/a", 7, 7) == b""
    assert fs.cat_ranges(["events/a"] * 2, [0, 50], [2, 52]) == [b"\0\1", bytes([50, 51])]
    assert fs.head("events/a", 3) == b"\0\1\2" and fs.tail("events/a", 2) == bytes([98, 99])
    with fs.open("events/a") as file:
        file.seek(-1, 2)
        assert file.read() == b"c"


def test_files_are_appended_to(fs, events):
    for line in (b"one\n", b"two\n"):
        with fs.open("events/log", "ab") as file:
            file.write(line)
    assert events.read("log") == b"one\ntwo\n"


def test_appends_at_once_are_whole(fs, events):
    def append(byte):
        for _ in range(20):
            with fs.open("events/log", "ab", block_size=1 << 20) as file:
                file.write(byte * 700)
                file.write(byte * 300)

    threads = [threading.Thread(target=append, args=(byte,)) for byte in (b"a", b"b", b"c")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log = events.read("log")
    pieces = [log[first : first + 1000] for first in range(0, len(log), 1000)]
    assert len(pieces) == 60 and all(len(set(piece)) == 1 for piece in pieces)


def test_names_are_globbed_and_listed(fs, events):
    events.put_many({name: b"x" for name in ("a.csv", "b.txt", "sub/c.csv", "sub/deep/d.csv", "sub0/e", "sub-1/f", "sub")})
    assert fs.glob("events/*.csv") == ["events/a.csv"]
    assert fs.glob("events/**/*.csv") == ["events/a.csv", "events/sub/c.csv", "events/sub/deep/d.csv"]
    listed = fs.ls("events", detail=True)
    assert sorted((each["name"], each["type"]) for each in listed) == [
        ("events/a.csv", "file"),
        ("events/b.txt", "file"),
        ("events/sub", "directory"),
        ("events/sub", "file"),
        ("events/sub-1", "directory"),
        ("events/sub0", "directory"),
    ]
    assert fs.find("events/sub0") == ["events/sub0/e"]
    assert {"events/sub/c.csv", "events/sub/deep/d.csv"} <= set(fs.find("events/sub"))
    assert fs.ls("", detail=False) == ["events"]
    assert fs.isdir("events/sub/deep") and fs.isfile("events/a.csv") and not fs.exists("events/none")
    with pytest.raises(FileNotFoundError):
        fs.ls("events/none")
    with pytest.raises(FileNotFoundError):
        fs.ls("none")


@pytest.mark.parametrize("length", [4095, 4096, 4097, 5000])
def test_no_file_has_a_name_that_is_too_long(fs, events, length):
    events.put("a", b"x")
    path = "events/" + "k" * length
    assert not fs.exists(path) and not fs.isfile(path) and not fs.isdir(path)
    assert fs.find(path) == [] and list(fs.walk(path)) == [(path, [], [])]
    expected = errno.ENAMETOOLONG if length > 4096 else errno.ENOENT
    for call in (fs.info, fs.ls, fs.size):
        with pytest.raises(FileNotFoundError) as failed:
            call(path)
        assert failed.value.errno == expected
    with pytest.raises(FileNotFoundError):
        fs.rm(path, recursive=True)


def test_a_file_has_the_longest_name(fs, events):
    path = "events/" + "k" * 4096
    fs.pipe_file(path, b"x")
    assert fs.isfile(path) and not fs.isdir(path) and fs.find(path) == [path]
    assert fs.ls(path, detail=False) == [path]
    fs.rm(path, recursive=True)
    assert not fs.exists(path)


@pytest.mark.parametrize("how", ["a tree", "a list", "a depth"])
def test_more_is_removed_than_a_transaction_of_a_directory_takes(fs, events, how):
    names = [f"many/{number:03}-" + "k" * 4000 for number in range(300)]
    for name in names:
        events.put(name, b"x")
    with pytest.raises(tyr.Invalid, match="too large"), events.transaction() as transaction:
        for name in names:
            transaction.delete(name)
    if how == "a list":
        fs.rm([f"events/{name}" for name in names])
    else:
        fs.rm("events/many", recursive=True, maxdepth=None if how == "a tree" else 2)
    assert fs.exists("events") and events.scan() == []


def test_many_files_in_a_directory_are_passed_over(fs, events):
    for first in range(0, 2500, 500):
        events.put_many({f"many/{number:05}": b"" for number in range(first, first + 500)})
    events.put("zuletzt", b"x")
    assert fs.ls("events", detail=False) == ["events/many", "events/zuletzt"]
    assert len(fs.ls("events/many")) == 2500


def test_listings_are_never_stale(fs, events):
    assert fs.ls("events") == []
    events.put("a", b"x")
    assert fs.ls("events", detail=False) == ["events/a"]
    assert fs.info("events/a")["size"] == 1
    events.put("a", b"longer")
    assert fs.info("events/a")["size"] == 6
    events.delete("a")
    assert not fs.exists("events/a")


def test_an_open_file_shows_one_version(fs, events):
    events.put("a", b"1" * 300_000)
    before = fs.ukey("events/a")
    with fs.open("events/a", block_size=1000, cache_type="readahead") as file:
        first = file.read(10)
        events.put("a", b"2" * 200_000)
        assert first + file.read() == b"1" * 300_000
    assert fs.cat_file("events/a") == b"2" * 200_000 and fs.ukey("events/a") != before


def test_a_file_appears_when_it_is_closed(fs, events):
    events.put("a", b"before")
    with fs.open("events/a", "wb", block_size=1000) as file:
        for _ in range(100):
            file.write(b"x" * 100)
        assert events.read("a") == b"before"
    assert events.read("a") == b"x" * 10_000


def test_a_transaction_is_all_or_nothing(fs, events):
    events.put("gone", b"x")
    with fs.transaction:
        fs.pipe("events/a", b"one")
        with fs.open("events/b", "wb") as file:
            file.write(b"two")
        fs.rm("events/gone")
        fs.mv("events/a", "events/c")
        assert fs.cat_file("events/c") == b"one" and not fs.exists("events/gone")
        assert events.read_many(["a", "b", "c", "gone"]) == [None, None, None, b"x"]
    assert events.read_many(["a", "b", "c", "gone"]) == [None, b"two", b"one", None]


def test_a_transaction_that_fails_leaves_nothing(fs, events):
    with pytest.raises(RuntimeError), fs.transaction:
        fs.pipe("events/a", b"one")
        with fs.open("events/b", "wb") as file:
            file.write(b"two")
        raise RuntimeError("planned")
    assert fs.ls("events") == []
    fs.pipe("events/a", b"after")
    assert events.read("a") == b"after"


def test_a_transaction_conflicts_with_who_changed_what_it_read(fs, events):
    events.put("n", b"1")
    with pytest.raises(tyr.Conflict), fs.transaction:
        number = int(fs.cat_file("events/n"))
        events.put("n", b"5")
        fs.pipe("events/n", b"%d" % (number + 1))
    assert events.read("n") == b"5"


def test_keyspaces_are_directories(fs, store):
    fs.mkdir("new")
    with pytest.raises(FileExistsError):
        fs.mkdir("new")
    fs.makedirs("new/inside", exist_ok=True)
    fs.touch("new/inside/a")
    with pytest.raises(OSError, match="files in it"):
        fs.rmdir("new")
    fs.rm("new/inside/a")
    fs.rmdir("new")
    with pytest.raises(FileNotFoundError):
        fs.pipe("new/a", b"x")
    store.create_keyspace("new")
    fs.pipe("new/a", b"x")
    with pytest.raises(IsADirectoryError):
        fs.pipe("new", b"x")


def test_a_keyspace_that_was_made_again_is_found(fs, store, events):
    fs.pipe("events/a", b"x")
    store.drop_keyspace("events")
    with pytest.raises(FileNotFoundError):
        fs.cat_file("events/a")
    store.create_keyspace("events").put("a", b"new")
    assert fs.cat_file("events/a") == b"new"


def test_it_is_pickled_with_its_place(fs, events):
    events.put("a", b"x")
    again = pickle.loads(pickle.dumps(fs))
    assert again.cat_file("events/a") == b"x" and again.store is not None


def test_it_is_equal_to_what_it_is_pickled_to(store, events, place):
    named = {"options": {"deadline": 1.0, "connect_timeout": 2.0}, "settings": {"chunk_size": 1 << 20, "durability": "memory"}}
    made = [
        TyrFileSystem(store),
        TyrFileSystem(store, batch_size=7, **named),
        TyrFileSystem(store, asynchronous=True),
        TyrFileSystem("tyr://a:1"),
        TyrFileSystem(),
    ]
    for fs in made:
        again = pickle.loads(pickle.dumps(fs))
        assert again == fs and hash(again) == hash(fs) and tokenize(again) == tokenize(fs)
        assert (again.batch_size, again.asynchronous) == (fs.batch_size, fs.asynchronous)
        assert [each for each in made if each == fs] == [fs]
    assert TyrFileSystem(place) == TyrFileSystem(store) == TyrFileSystem(store=store, asynchronous=False)
    turned = {name: dict(reversed(each.items())) for name, each in named.items()}
    assert TyrFileSystem(store, batch_size=7, **turned) == made[1]
    assert TyrFileSystem(store, loop=made[0].loop) != made[1]
    assert pickle.loads(pickle.dumps(TyrFileSystem(store, loop=made[0].loop))).ls("events") == []
    text = "import sys, pickle, dask.base; print(dask.base.tokenize(pickle.load(sys.stdin.buffer)))"
    there = subprocess.run([sys.executable, "-c", text], input=pickle.dumps(made[1]), capture_output=True, check=True)
    assert there.stdout.decode().strip() == tokenize(made[1])


def test_dask_tells_stores_apart_that_are_among_its_options(store, place):
    def token_of(store):
        return tokenize({"store": store}, ensure_deterministic=True)

    before = token_of(store)
    assert token_of(store) == token_of(store.within(1.0)) == before
    with tyr.open(place + "-other", segment_size=1 << 20) as other:
        assert token_of(other) != before
    store.close()
    with tyr.open(place, segment_size=1 << 20) as again:
        assert token_of(again) == before


async def test_it_is_used_by_await(store, events):
    fs = fsspec.filesystem("tyr", store=store, asynchronous=True)
    await asyncio.gather(*[fs._pipe_file(f"events/{number}", b"x") for number in range(20)])
    assert len(await fs._ls("events")) == 20
    assert await fs._cat_file("events/7") == b"x"


def test_pandas_reads_and_writes(fs, store, events):
    frame = pd.DataFrame({"a": range(1000), "b": ["text"] * 1000})
    frame.to_csv("tyr:///events/frame.csv", index=False, storage_options={"store": store})
    back = pd.read_csv("tyr:///events/frame.csv", storage_options={"store": store})
    pd.testing.assert_frame_equal(back, frame)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32", "UTF_16"])
def test_text_is_read_as_it_was_written(fs, events, tmp_path, encoding):
    for text in ("", "é\nb\n"):
        for name in (str(tmp_path / "a"), "tyr:///events/a"):
            with (fs.open if name.startswith("tyr") else open)(name, "w", encoding=encoding) as file:
                file.write(text)
        with fs.open("events/a", "r", encoding=encoding) as file:
            assert file.read() == text
        assert events.read("a") == (tmp_path / "a").read_bytes()


def test_a_directory_is_not_opened_as_a_file(fs, events):
    events.put("d/a", b"a")
    with pytest.raises(IsADirectoryError):
        fs.open("events/d")
    with pytest.raises(FileNotFoundError):
        fs.open("events/e")


@pytest.mark.parametrize("mode", ["Create", "exclusive", "append", "wb", "", None])
def test_nothing_is_written_in_a_mode_that_is_unknown(fs, store, events, tmp_path, mode):
    events.put("a", b"precious")
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "a").write_bytes(b"other")
    for call in (
        lambda: fs.pipe_file("events/a", b"other", mode=mode),
        lambda: fs.pipe({"events/a": b"other", "events/b": b"other"}, mode=mode),
        lambda: fs.put_file(str(tmp_path / "tree" / "a"), "events/a", mode=mode),
        lambda: fs.put_file(str(tmp_path / "tree"), "new", mode=mode),
        lambda: fs.put(str(tmp_path / "tree"), "events/", recursive=True, mode=mode),
    ):
        with pytest.raises(ValueError, match="not in"):
            call()
    assert [entry.name for entry in events.scan()] == ["a"] and events.read("a") == b"precious"
    assert fs.ls("", detail=False) == ["events"]


class Told(Callback):
    """What a callback is told of a file, and of each that it was branched for."""

    def __init__(self):
        super().__init__()
        self.branches = {}
        self.sizes = []

    def branched(self, path_1, path_2, **kwargs):
        return self.branches.setdefault(path_1, Told())

    def call(self, *arguments, **kwargs):
        self.sizes.append(self.size)


@pytest.mark.parametrize("size", [0, 10, (8 << 20) - 1, 8 << 20, 20 << 20])
def test_callbacks_are_told_how_much_there_is_before_it_is_done(fs, events, tmp_path, size):
    (tmp_path / "from").mkdir()
    (tmp_path / "from" / "a").write_bytes(b"x" * size)
    calls = {
        "put_file": lambda told: fs.put_file(str(tmp_path / "from" / "a"), "events/tree/a", callback=told),
        "get_file": lambda told: fs.get_file("events/tree/a", str(tmp_path / "a"), callback=told),
        "put": lambda told: fs.put(str(tmp_path / "from" / "a"), "events/other", callback=told),
        "get": lambda told: fs.get("events/tree", str(tmp_path / "to"), recursive=True, callback=told),
    }
    for name, call in calls.items():
        told = Told()
        call(told)
        if not name.endswith("_file"):
            assert (told.size, told.value) == (len(told.branches), len(told.branches))
            (told,) = [branch for path, branch in told.branches.items() if path.endswith("/a")]
        assert (told.size, told.value) == (size, size) and set(told.sizes) == {size}, name
    assert (tmp_path / "a").read_bytes() == (tmp_path / "to" / "a").read_bytes() == b"x" * size


def test_what_is_missing_is_said_and_changes_nothing(fs, events, tmp_path):
    (kept := tmp_path / "kept").write_text("precious")
    with pytest.raises(FileNotFoundError):
        fs.get_file("events/missing", str(kept))
    assert kept.read_text() == "precious"
    with pytest.raises(FileNotFoundError):
        fs.rm("events/missing")
    events.put("empty", b"")
    fs.get_file("events/empty", str(kept))
    assert kept.read_text() == ""


def test_a_keyspace_is_not_removed_in_a_transaction(fs, events):
    fs.pipe("events/a", b"x")
    with pytest.raises(OSError, match="in a transaction"), fs.transaction:
        fs.rm("events", recursive=True)
    assert events.read("a") == b"x"
    # Moved as a whole it goes when it is empty, and not before all of it is elsewhere.
    fs.mkdir("other")
    fs.mv("events", "other/moved", recursive=True)
    assert fs.find("other") == ["other/moved/a"] and not fs.exists("events")


def test_what_was_written_before_an_exception_is_not_there(fs, events):
    with pytest.raises(ZeroDivisionError), fs.open("events/half", "wb") as file:
        file.write(b"half")
        1 / 0
    file = fs.open("events/forgotten", "wb")
    file.write(b"x")
    file.discard()
    file.close()
    file = fs.open("events/later", "wb", autocommit=False)
    file.write(b"x")
    file.close()
    assert not any(fs.exists(f"events/{name}") for name in ("half", "forgotten", "later"))
    file.commit()
    assert events.read("later") == b"x"


def test_a_store_that_was_given_is_not_opened_again(fs, store, events):
    store.close()
    with pytest.raises(tyr.Unavailable):
        fs.ls("events")


def test_a_relative_name_is_of_where_the_program_was(tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with tyr.open("named", segment_size=1 << 20) as store:
        tyr.fs.adopt(store)
        store.create_keyspace("events").put("a", b"x")
        later = TyrFileSystem("named")
        monkeypatch.setenv("TYR_STORE", "named")
        assert TyrFileSystem().cat_file("events/a") == b"x"
        monkeypatch.chdir("elsewhere")
        assert store.place == str(tmp_path / "named")
        for fs in (later, TyrFileSystem(store), pickle.loads(pickle.dumps(TyrFileSystem(store))), TyrFileSystem()):
            assert fs.cat_file("events/a") == b"x"
    assert not list((tmp_path / "elsewhere").iterdir())


def test_a_transaction_has_a_beginning_and_an_end_without_a_block(fs, events):
    fs.start_transaction()
    fs.pipe("events/a", b"one")
    with fs.open("events/b", "wb") as file:
        file.write(b"two")
    assert events.scan() == []
    fs.end_transaction()
    assert events.read_many(["a", "b"]) == [b"one", b"two"]
    transaction = fs.start_transaction()
    fs.pipe("events/a", b"other")
    transaction.complete(False)
    with pytest.raises(tyr.Invalid, match="no transaction"):
        fs.end_transaction()
    fs.pipe("events/c", b"by itself")
    assert events.read_many(["a", "c"]) == [b"one", b"by itself"]


def test_a_transaction_within_another_is_refused_and_leaves_it(fs, events):
    with fs.transaction:
        fs.pipe("events/a", b"one")
        with pytest.raises(tyr.Invalid, match="runs already"), fs.transaction:
            pass
        with pytest.raises(tyr.Invalid, match="runs already"):
            fs.start_transaction()
        fs.pipe("events/b", b"two")
        assert events.scan() == []
    assert events.read_many(["a", "b"]) == [b"one", b"two"]


def made_again(store, content=b"old"):
    store.drop_keyspace("events")
    keyspace = store.create_keyspace("events")
    keyspace.put_many({"a": content, "d/b": content})
    return keyspace


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        (lambda fs: fs.exists("events/a"), True),
        (lambda fs: fs.info("events/a")["size"], 3),
        (lambda fs: fs.isdir("events/d"), True),
        (lambda fs: fs.find("events"), ["events/a", "events/d/b"]),
        (lambda fs: fs.ls("events", detail=False), ["events/a", "events/d"]),
        (lambda fs: fs.cat_file("events/a", -2), b"ew"),
        (lambda fs: fs.cat(["events/a", "events/d/b"]), {"events/a": b"new", "events/d/b": b"new"}),
        (lambda fs: fs.open("events/a").read(), b"new"),
        (lambda fs: fs.pipe({f"events/{number}": b"x" for number in range(10)}), None),
        (lambda fs: fs.pipe_file("events/x", b"x", mode="create"), None),
        (lambda fs: fs.touch("events/x"), None),
        (lambda fs: fs.touch("events/a", truncate=False), None),
        (lambda fs: fs.cp("events/a", "events/x"), None),
        (lambda fs: fs.cp("other/c", "events/x"), None),
        (lambda fs: fs.mv("events/a", "events/x"), None),
        (lambda fs: fs.mv("other", "events/x", recursive=True), None),
        (lambda fs: fs.mv("events/d", "other/x", recursive=True), None),
        (lambda fs: sync(fs.loop, fs._mv_file, "events/a", "events/x"), None),
        (lambda fs: fs.rm("events/a"), None),
        (lambda fs: fs.rm("events/d", recursive=True), None),
        (lambda fs: fs.rm_file("events/a"), None),
    ],
)
def test_a_keyspace_that_was_made_again_is_known_to_every_operation(fs, store, events, operation, expected):
    store.create_keyspace("other").put("c", b"other")
    fs.pipe("events/a", b"old")
    assert fs.exists("other/c")
    made_again(store, b"new")
    result = operation(fs)
    assert expected is None or result == expected


def test_files_are_written_to_a_keyspace_that_was_made_again(fs, store, events, tmp_path):
    fs.pipe("events/a", b"old")
    for mode in ("wb", "ab", "xb"):
        again = made_again(store)
        with fs.open("events/x", mode) as file:
            file.write(b"new")
        assert again.read("x") == b"new"
    again = made_again(store)
    with fs.transaction:
        fs.pipe("events/x", b"new")
    assert again.read("x") == b"new"
    (tmp_path / "local").write_bytes(b"local")
    again = made_again(store)
    fs.put_file(str(tmp_path / "local"), "events/x")
    assert again.read("x") == b"local"
    again = made_again(store)
    fs.get_file("events/a", str(tmp_path / "local"))
    assert (tmp_path / "local").read_bytes() == b"old"
    for entry in again.scan():
        again.delete(entry.key)
    store.drop_keyspace("events")
    store.create_keyspace("events")
    fs.rmdir("events")
    assert not fs.exists("events")


def test_a_keyspace_of_a_cluster_that_was_made_again_is_known(servers):
    servers.clear()
    with tyr.open(servers.url) as store:
        fs = fsspec.filesystem("tyr", store=store)
        store.create_keyspace("events")
        for operation in (lambda: fs.exists("events/a"), lambda: fs.pipe("events/x", b"x") or True, lambda: fs.find("events")):
            fs.pipe("events/a", b"old")
            made_again(store)
            assert operation()


@pytest.mark.parametrize("content", [{}, {"a": b"x"}])
@pytest.mark.parametrize("operation", ["exists", "isdir", "info"])
def test_a_keyspace_that_another_client_dropped_is_soon_not_there(servers, operation, content):
    servers.clear()
    with tyr.open(servers.url) as other, tyr.open(servers.url) as store:
        fs = TyrFileSystem(store)
        other.create_keyspace("events").put_many(content)
        assert fs.isdir("events") and fs.find("events") == [f"events/{key}" for key in content]
        other.drop_keyspace("events")
        until = time.monotonic() + 10
        with contextlib.suppress(FileNotFoundError):
            while getattr(fs, operation)("events"):
                assert time.monotonic() < until
        assert not fs.exists("events")
        # Another one of its name is found.
        other.create_keyspace("events").put("b", b"x")
        while not fs.exists("events"):
            assert time.monotonic() < until
        while fs.find("events") != ["events/b"]:
            assert time.monotonic() < until


def opened(fs, how, path):
    """A file that is opened for writing, in one of the ways there are."""
    if how == "fsspec.open":
        return fsspec.open(f"tyr:///{path}", "wb", store=fs.store)
    if how == "fsspec.open of text":
        return fsspec.open(f"tyr:///{path}", "wt", store=fs.store)
    if how == "fsspec.open, compressed":
        return fsspec.open(f"tyr:///{path}", "wt", compression="gzip", store=fs.store)
    mode, _, compression = how.partition(" ")
    return fs.open(path, mode, compression=compression or None)


WAYS = ["wb", "ab", "w", "wt", "wb gzip", "wt bz2", "wt xz", "wb zip"]


OUTER_WAYS = ["fsspec.open", "fsspec.open of text", "fsspec.open, compressed"]


@pytest.mark.parametrize("how", WAYS + OUTER_WAYS)
@pytest.mark.parametrize("size", [10, 1 << 20])
def test_what_was_written_before_an_exception_is_not_there_in_any_mode(fs, events, how, size):
    with pytest.raises(ZeroDivisionError), opened(fs, how, "events/half") as file:
        random = np.random.default_rng(1).integers(33, 126, size, "u1").tobytes()
        file.write(random.decode() if isinstance(file, io.TextIOBase) else random)
        1 / 0
    assert not events.exists("half")
    with opened(fs, how, "events/whole") as file:
        file.write("text" if isinstance(file, io.TextIOBase) else b"text")
    assert events.exists("whole") and file.closed
    compressions = {"gzip": "gzip", "compressed": "gzip", "bz2": "bz2", "xz": "xz", "zip": "zip"}
    with fs.open("events/whole", "rb", compression=compressions.get(how.split(" ")[-1])) as file:
        assert file.read() == b"text"


def test_a_file_that_is_closed_while_another_exception_is_handled_is_whole(fs, events):
    try:
        1 / 0
    except ZeroDivisionError:
        with fsspec.open("tyr:///events/told", "wt", store=fs.store) as file:
            file.write("it failed")
        with fs.open("events/told-too", "wt") as file:
            file.write("it failed")
        late = fs.open("events/late", "wb")
        late.write(b"x")
        late.close()
    assert events.read_many(["told", "told-too", "late"]) == [b"it failed", b"it failed", b"x"]


def test_several_files_of_one_block_are_forgotten_with_it(fs, events):
    with pytest.raises(ZeroDivisionError), fsspec.open_files("tyr:///events/*", "wb", num=3, store=fs.store) as files:
        for file in files:
            file.write(b"x")
        1 / 0
    assert events.scan() == []


@pytest.mark.parametrize("how", WAYS)
def test_a_file_that_nobody_closed_is_written_when_it_is_collected(fs, events, how):
    file = opened(fs, how, "events/a")
    text = isinstance(file, io.TextIOBase)
    file.write("text" if text else b"text")
    del file
    gc.collect()
    assert fs.find("events") == ["events/a"]


def test_text_is_committed_and_discarded_like_bytes(fs, events):
    for compression in (None, "gzip"):
        for end in ("commit", "discard"):
            file = fs.open(f"events/{compression}-{end}", "wt", compression=compression, autocommit=False)
            file.write("x")
            file.close()
            assert not fs.exists(f"events/{compression}-{end}")
            getattr(file, end)()
            assert fs.exists(f"events/{compression}-{end}") == (end == "commit")
    with pytest.raises(LookupError):
        fs.open("events/a", "wt", encoding="no-such-encoding")
    with pytest.raises(ValueError):
        fs.open("events/a", "wt", compression="no-such-compression")
    assert not fs.exists("events/a")


def test_a_file_that_is_not_there_is_named_with_its_keyspace(fs, events):
    for path in ("events/missing", "none/missing"):
        with pytest.raises(FileNotFoundError) as caught:
            fs.open(path)
        assert caught.value.filename == path
    events.put("a", b"")
    with pytest.raises(FileExistsError) as caught:
        fs.open("events/a", "xb").close()
    assert caught.value.filename == "events/a"


def test_a_file_that_is_put_is_a_pipe_too(fs, events, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(b"x" * 100_000,))
    writer.start()
    fs.put_file(str(tmp_path / "pipe"), "events/a", mode="create")
    writer.join()
    assert events.read("a") == b"x" * 100_000


def test_it_is_made_again_from_what_describes_it(store, events):
    events.put("a", b"x")
    for fs in (TyrFileSystem(store), TyrFileSystem(store=store, settings={"chunk_size": 1 << 20})):
        assert TyrFileSystem.from_json(fs.to_json()).cat_file("events/a") == b"x"
        assert TyrFileSystem.from_dict(fs.to_dict()).cat_file("events/a") == b"x"
    assert fs.to_dict()["settings"] == {"chunk_size": 1 << 20} and fs.to_dict()["store"] == store.place
    secret = TyrFileSystem("tyr://a:1", options={"token": "secret", "deadline": 1.0})
    assert "secret" in secret.to_json() and "secret" not in secret.to_json(include_password=False)


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_files_that_are_open_when_a_transaction_is_rolled_back_are_closed(fs, events):
    with pytest.raises(RuntimeError), fs.transaction:
        files = [fs.open("events/a", "wb"), fs.open("events/b", "wt"), fs.open("events/c", "wb", compression="gzip")]
        files[0].write(b"one")
        files[1].write("two")
        raise RuntimeError("planned")
    assert all(file.closed for file in files)
    del files
    gc.collect()
    assert events.scan() == []
    with fs.transaction:
        files = [fs.open("events/a", "wb"), fs.open("events/b", "wt"), fs.open("events/c", "wb", compression="gzip")]
        files[0].write(b"one")
        files[1].write("two")
    assert events.read_many(["a", "b"]) == [b"one", b"two"] and gzip.decompress(events.read("c")) == b""


def test_keys_that_no_path_names_are_removed_and_not_left_out(fs, store, events, tmp_path):
    odd = ["/a", "d//b", "d/c/", "//"]
    events.put_many({key: b"1" for key in [*odd, "d/x", "e"]})
    for key in odd:
        for copy in (fs.cp, fs.mv):
            with pytest.raises(OSError, match="no path names"):
                copy("events", "other", recursive=True)
    with pytest.raises(OSError, match="no path names"):
        fs.get("events", str(tmp_path), recursive=True)
    assert {entry.name for entry in events.scan()} == {*odd, "d/x", "e"} and fs.ls("", detail=False) == ["events"]
    with fs.transaction:
        fs.rm("events/d/x")
        fs.rm("events/d", recursive=True)
    assert {entry.name for entry in events.scan()} == {"/a", "//", "e"}
    fs.rm("events", recursive=True)
    assert store.keyspaces() == []


def test_the_store_itself_is_not_removed(fs, events):
    events.put("a", b"1")
    with pytest.raises(OSError, match="the store itself"):
        fs.rm("", recursive=True)
    assert events.read("a") == b"1"


def test_what_is_deeper_than_is_removed_stays(fs, events):
    events.put_many({"a": b"1", "d/b": b"2"})
    fs.rm("events", recursive=True, maxdepth=1)
    assert [entry.name for entry in events.scan()] == ["d/b"]


def test_a_transaction_is_of_the_file_system_and_not_of_a_thread(fs, store, events):
    other = fsspec.filesystem("tyr", store=store)
    with pytest.raises(RuntimeError), fs.transaction:
        for system, path in ((fs, "events/inside"), (other, "events/outside")):
            thread = threading.Thread(target=system.pipe, args=(path, b"x"))
            thread.start()
            thread.join()
        raise RuntimeError("planned")
    assert fs.find("events") == ["events/outside"]
