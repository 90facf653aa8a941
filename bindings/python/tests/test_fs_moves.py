"""The file system: what is copied and moved."""

import contextlib
import itertools
import threading

import fsspec
import pytest
import tyr
from fsspec.asyn import sync


@contextlib.contextmanager
def going_on(work):
    """Does something again and again beside the block, in a thread of its own."""
    ends = threading.Event()

    def repeat():
        while not ends.is_set():
            work()

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()


def test_trees_are_moved_and_removed_at_once(fs, events):
    events.put_many({f"from/{number}": b"%d" % number for number in range(20)})
    versions = set()
    fs.mv("events/from", "events/to", recursive=True)
    for entry in events.scan():
        assert entry.name.startswith("to/")
        versions.add(entry.version)
    assert len(versions) == 1
    fs.rm("events/to", recursive=True)
    assert events.scan() == []
    fs.rm("events", recursive=True)
    assert not fs.exists("events")


def test_what_is_moved_to_where_it_is_stays(fs, events):
    events.put_many({"d/x": b"precious", "d/sub/y": b"too"})
    for source, target, recursive in (
        ("events/d/x", "events/d/", False),
        ("events/d/sub", "events/d", True),
        ("events/d/*", "events/d/", False),
    ):
        with pytest.raises(OSError, match="to where it is"):
            fs.mv(source, target, recursive=recursive)
    assert events.read_many(["d/x", "d/sub/y"]) == [b"precious", b"too"]


@pytest.mark.parametrize(
    ("sources", "targets", "recursive"),
    [
        ("events/d", "events/d/in", True),
        ("events/d/", "events/d/in/", True),
        (["events/d/a", "events/d/b"], ["events/d/b", "events/d/a"], False),
        (["events/d/a", "events/d/b"], ["events/d/b", "events/d/c"], False),
    ],
)
def test_what_would_be_moved_over_what_is_moved_itself_stays(fs, events, sources, targets, recursive):
    files = {"d/a": b"a", "d/b": b"b", "d/in/a": b"inner", "d/in/d/a": b"innermost"}
    events.put_many(files)
    with pytest.raises(OSError, match="moved itself") as refused:
        fs.mv(sources, targets, recursive=recursive)
    assert refused.value.filename.startswith("events/d/")
    assert {entry.name: events.read(entry.key) for entry in events.scan_all()} == files


def test_a_tree_is_moved_below_itself_where_nothing_is(fs, events):
    events.put_many({"d/a": b"a", "d/sub/b": b"b"})
    fs.mv("events/d", "events/d/new", recursive=True)
    assert fs.cat(fs.find("events")) == {"events/d/new/a": b"a", "events/d/new/sub/b": b"b"}


@pytest.mark.parametrize("source", ["events/d", "events/d/", "events", "events/d/*"])
def test_what_comes_to_be_in_a_tree_while_it_is_moved_stays(fs, events, monkeypatch, source):
    events.put_many({"d/a": b"a", "d/b": b"b"})
    remove = fs._rm_files

    async def first_others(*arguments):
        events.put("d/new", b"new")
        return await remove(*arguments)

    fs.mkdir("other")
    monkeypatch.setattr(fs, "_rm_files", first_others)
    fs.mv(source, "other/", recursive=True)
    assert [entry.name for entry in events.scan()] == ["d/new"]
    assert sorted(fs.cat(fs.find("other")).values()) == [b"a", b"b"]


def test_a_tree_in_a_list_is_not_removed_when_it_is_not_copied(fs, events):
    events.put_many({"d/a": b"a", "e": b"e"})
    fs.mv(["events/d", "events/e"], ["events/to/d", "events/to/e"], recursive=True)
    # As fsspec has it, what is in a list is copied by itself.
    assert fs.find("events") == ["events/d/a", "events/to/e"]


def test_a_file_is_copied_and_moved_while_others_write_to_it(fs, events):
    events.put("log", b"")
    with going_on(lambda: events.append("log", b"line\n")):
        for number in range(10):
            fs.cp("events/log", f"events/copy-{number}")
            assert len(fs.cat_file(f"events/copy-{number}")) % 5 == 0
        fs.mv("events/log", "events/moved")
    assert fs.exists("events/moved")


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("how", ["cp", "cp of a tree", "mv", "mv of a tree", "mv_file"])
def test_what_is_copied_or_moved_has_the_attributes_of_its_source_and_no_others(fs, store, events, how, inside):
    other = store.create_keyspace("other")
    for key, attributes in {
        "from/a": {"type": b"text", "kept": b"1"},
        "from/plain": {},
        "from/large": {"type": b"large"},
    }.items():
        events.put(key, b"x" * (9 << 20) if key == "from/large" else key.encode())
        for name, value in attributes.items():
            events.set_attribute(key, name, value)
    for key in ("to/a", "to/plain"):
        other.put(key, b"what was there")
        for name in ("type", "other"):
            other.set_attribute(key, name, b"of what was there")
    before = {key: (events.read(f"from/{key}"), events.stat(f"from/{key}").attributes) for key in ("a", "plain", "large")}
    with fs.transaction if inside else contextlib.nullcontext():
        if how.endswith("of a tree"):
            getattr(fs, how[:2])("events/from/", "other/to/", recursive=True)
        elif how == "mv_file":
            for key in before:
                sync(fs.loop, fs._mv_file, f"events/from/{key}", f"other/to/{key}")
        else:
            for key in before:
                getattr(fs, how)(f"events/from/{key}", f"other/to/{key}")
    assert {key: (other.read(f"to/{key}"), other.stat(f"to/{key}").attributes) for key in before} == before
    assert (fs.find("events") == []) == how.startswith("mv")


def test_a_copy_has_content_and_attributes_of_one_version(fs, events):
    numbers = itertools.count()

    def write():
        number = b"%d" % next(numbers)

        def change(transaction):
            transaction.put("a", number)
            transaction.set_attribute("a", "number", number)

        events.run(change)

    write()
    with going_on(write):
        for _ in range(100):
            fs.cp("events/a", "events/b")
            assert events.attribute("b", "number") == events.read("b")


def test_a_file_that_others_write_to_is_copied_over(fs, events):
    events.put("a", b"copied")
    with going_on(lambda: events.append("b", b"x")):
        for _ in range(50):
            fs.cp("events/a", "events/b")
    assert events.read("b").startswith(b"copied")


def test_trees_are_copied_to_keyspaces_that_are_made_for_them(fs, store, events):
    tree = {f"{first}/{second}": b"%d" % (first + second) for first in range(8) for second in range(8)}
    events.put_many({f"tree/{key}": content for key, content in tree.items()})

    def within(place):
        return {path.removeprefix(place): content for path, content in fs.cat(fs.find(place)).items()}

    fs.cp("events/tree/", "new1/", recursive=True)
    assert within("new1/") == tree
    fs.cp("events/tree", "new2", recursive=True)
    assert within("new2/") == tree
    fs.cp("events/tree/0", "new3/x", recursive=True)
    assert within("new3/x/") == {str(second): b"%d" % second for second in range(8)}
    fs.cp("new1", "new4", recursive=True)
    assert within("new4/") == tree
    fs.mv("events/tree", "new5", recursive=True)
    assert within("new5/") == tree and fs.find("events") == []
    with fs.transaction:
        fs.mv("new3/x", "new6/deep", recursive=True)
    assert len(within("new6/deep/")) == 8 and fs.find("new3") == []


def test_a_copy_whose_target_is_missing_fails(fs, store, events):
    events.put_many({"tree/a": b"1", "tree/b/c": b"2"})
    with pytest.raises(FileNotFoundError):
        fs.cp("events/tree/a", "missing/a")
    with pytest.raises(FileNotFoundError):
        fs.cp(["events/tree/a", "events/tree/b/c"], ["missing/a", "missing/c"])
    with pytest.raises((tyr.Invalid, OSError)):
        fs.cp("events/tree", "no name/x", recursive=True)
    assert [each.name for each in store.keyspaces()] == ["events"]
    # What is gone before its turn comes is passed over, as by other file systems.
    fs.cp(["events/tree/a", "events/gone"], ["events/copy", "events/gone-too"], recursive=True)
    assert events.read("copy") == b"1" and not events.exists("gone-too")
