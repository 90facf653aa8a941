"""The file system: several at once at the same files."""

import concurrent.futures
import functools
import threading

import pytest
import tyr
from tyr.fs import TyrFileSystem


def at_once(calls):
    """What calls from as many threads result in, or the exceptions that they raise."""
    begins = threading.Barrier(len(calls))

    def do(call):
        begins.wait()
        try:
            return call()
        except Exception as error:
            return error

    with concurrent.futures.ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(do, calls))


@pytest.fixture(params=["directory", "cluster"])
def systems(request):
    """Several file systems on one store, each with a client of its own if it is a cluster."""
    if request.param == "directory":
        store = request.getfixturevalue("store")
        stores = [store] * 6
    else:
        servers = request.getfixturevalue("servers")
        servers.clear()
        stores = [tyr.open(servers.url) for _ in range(6)]
    stores[0].create_keyspace("events")
    yield [TyrFileSystem(store) for store in stores]
    for store in stores:
        store.close()


def written_by(how, fs, path, content, local):
    if how == "pipe_file":
        fs.pipe_file(path, content, mode="create")
    elif how == "put_file":
        fs.put_file(local, path, mode="create")
    elif how == "commit":
        file = fs.open(path, "xb", autocommit=False)
        file.write(content)
        file.close()
        file.commit()
    else:
        with fs.open(path, how) as file:
            file.write(content if how == "xb" else content.decode())


@pytest.mark.parametrize("how", ["pipe_file", "put_file", "xb", "xt", "commit"])
def test_of_several_who_create_a_file_one_does_and_the_others_are_told_that_it_exists(systems, tmp_path, how):
    for number in range(len(systems)):
        (tmp_path / f"local-{number}").write_bytes(b"%d" % number)
    for turn in range(10):
        path = f"events/{turn}"

        def create(number, path=path):
            written_by(how, systems[number], path, b"%d" % number, str(tmp_path / f"local-{number}"))

        ended = at_once([functools.partial(create, number) for number in range(len(systems))])
        assert ended.count(None) == 1 and {type(each) for each in ended} == {type(None), FileExistsError}, ended
        assert systems[0].cat_file(path) == b"%d" % ended.index(None)


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        (lambda fs, path: fs.rm(path), FileNotFoundError),
        (lambda fs, path: fs.rm(["events/other", path]), FileNotFoundError),
        (lambda fs, path: fs.rm_file(path), FileNotFoundError),
        (lambda fs, path: fs.rm(path, recursive=True), type(None)),
        (lambda fs, path: fs.rm(path, recursive=True, maxdepth=3), type(None)),
    ],
)
def test_of_several_who_remove_a_file_none_is_told_of_a_conflict(systems, how, expected):
    for turn in range(10):
        path = f"events/{turn}"
        systems[0].pipe({path: b"x", "events/other": b"x"})
        ended = at_once([functools.partial(how, fs, path) for fs in systems])
        told = [each for each in ended if each is not None]
        # Who comes when it is gone already finds nothing to remove.
        assert {type(each) for each in told} <= {FileNotFoundError} and not systems[0].exists(path), ended
        if expected is FileNotFoundError:
            assert len(told) == len(systems) - 1, ended


def test_a_tree_is_removed_by_several_at_once(systems):
    systems[0].pipe({f"events/tree/{number}": b"x" for number in range(40)} | {"events/stays": b"x"})
    ended = at_once([functools.partial(fs.rm, "events/tree", recursive=True) for fs in systems])
    assert {type(each) for each in ended} <= {type(None), FileNotFoundError} and None in ended, ended
    assert systems[0].find("events") == ["events/stays"]


def test_what_others_removed_after_it_was_listed_is_passed_over(fs, events, monkeypatch):
    for maxdepth in (None, 3):
        events.put_many({f"tree/{number}": b"x" for number in range(3)})
        run = fs._run

        async def first_others(body):
            events.delete("tree/1")
            await run(body)

        monkeypatch.setattr(fs, "_run", first_others)
        fs.rm("events/tree", recursive=True, maxdepth=maxdepth)
        monkeypatch.undo()
        assert events.scan() == []
