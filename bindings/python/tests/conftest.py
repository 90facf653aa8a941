"""What tests share: a small store for each, which is deleted afterwards."""

import shutil
import tempfile

import fsspec
import pytest
import tyr

SEGMENT_SIZE = 1 << 20


@pytest.fixture
def place():
    directory = tempfile.mkdtemp(prefix="tyr-python-")
    yield directory + "/store"
    shutil.rmtree(directory)


@pytest.fixture
def store(place):
    with tyr.open(place, segment_size=SEGMENT_SIZE) as store:
        yield store


@pytest.fixture
def events(store):
    return store.create_keyspace("events", chunk_size=64 << 10)


@pytest.fixture
def fs(store, events):
    return fsspec.filesystem("tyr", store=store)


@pytest.fixture(scope="session")
def servers():
    from servers import Servers

    servers = Servers()
    yield servers
    servers.end()
