"""The tests that zarr has for every store."""

import pytest
from zarr.core.buffer import cpu
from zarr.testing.store import StoreTests

from tyr.zarr import TyrStore


class TestTyrStore(StoreTests[TyrStore, cpu.Buffer]):
    store_cls = TyrStore
    buffer_cls = cpu.Buffer

    @pytest.fixture
    def store_kwargs(self, place):
        import tyr

        with tyr.open(place, segment_size=1 << 20) as opened:
            yield {"store": opened, "keyspace": "arrays", "prefix": "some/where"}

    async def set(self, store, key, value):
        try:
            keyspace = store._shared().keyspace("arrays")
        except LookupError:
            keyspace = store._shared().create_keyspace("arrays")
        keyspace.put("some/where/" + key, value.to_bytes())

    async def get(self, store, key):
        return self.buffer_cls.from_bytes(store._shared().keyspace("arrays").read("some/where/" + key))

    def test_store_repr(self, store):
        assert repr(store) == "TyrStore('tyr:///arrays/some/where')"

    def test_store_supports_writes(self, store):
        assert store.supports_writes

    def test_store_supports_listing(self, store):
        assert store.supports_listing
