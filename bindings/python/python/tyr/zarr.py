"""A store for zarr 3, and with that for xarray and dask: arrays whose updates are transactions.

>>> import numpy as np, tyr.zarr, zarr
>>> arrays = tyr.zarr.TyrStore(store, "arrays")
>>> grid = zarr.create_array(arrays, name="grid", shape=(8, 8), chunks=(4, 4), dtype="f8")
>>> with arrays.transaction() as inside:
...     zarr.open_array(inside, path="grid")[:] = np.ones((8, 8))
>>> with arrays.snapshot() as frozen:
...     grid[:] = 2
...     float(zarr.open_array(frozen, path="grid", mode="r")[:].sum())
64.0
>>> float(grid[:].sum())
128.0
"""

import builtins
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Self, TypeVar

from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest, Store, SuffixByteRequest
from zarr.core.buffer import Buffer, BufferPrototype, default_buffer_prototype
from zarr.core.common import concurrent_map
from zarr.core.sync import sync

from . import _tyr, errors
from ._run import failure_of
from ._run_aio import KeyspaceTransaction
from ._shared import adopt, in_batches, name_of, shared, was_dropped
from ._tyr import AioKeyspace, Entry

T = TypeVar("T")


class TyrStore(Store):
    """A zarr store in a keyspace, under a prefix if there is one.

    `store` is a directory, the URL of a cluster, an open `tyr.Store`, or `None` for what ``TYR_STORE`` names. The keyspace is made
    if it does not exist. What is set in one call is atomic; see `transaction`, `run`, and `snapshot` for more than that.
    """

    supports_writes = True
    supports_deletes = True
    supports_listing = True

    def __init__(
        self,
        store: str | os.PathLike[str] | _tyr.Store | None,
        keyspace: str,
        prefix: str = "",
        *,
        options: dict[str, Any] | None = None,
        read_only: bool = False,
    ) -> None:
        super().__init__(read_only=read_only)
        self._given = store if isinstance(store, _tyr.Store) else None
        if isinstance(store, _tyr.Store):
            store = adopt(store)
        self._place: str | None = store if store is None else name_of(store)
        self._name = keyspace
        self._prefix = prefix.strip("/") + "/" if prefix.strip("/") else ""
        self._options = options
        self._handle: AioKeyspace | None = None

    # What it is.

    def _shared(self) -> _tyr.Store:
        """The open store. One that was given open has its own token and deadline, whatever else is open at its place."""
        return self._given if self._given is not None else shared(self._place, self._options)

    async def _scope(self) -> Any:
        """What reads and writes: here the keyspace."""
        handle = self._handle
        if handle is None:
            aio = self._shared().aio
            try:
                handle = await aio.keyspace(self._name)
            except errors.NotFound:
                if self.read_only:
                    raise
                try:
                    handle = await aio.create_keyspace(self._name)
                except errors.Exists:
                    handle = await aio.keyspace(self._name)
            self._handle = handle
        return handle

    async def _anew(self) -> Any:
        """What reads and writes several things: of a handle from before it would be seen late that its keyspace was dropped."""
        if self._handle is not None:
            self._handle = await self._shared().aio.keyspace(self._name)
        return await self._scope()

    async def _reads(self) -> Any:
        """What reads several things of one version."""
        return KeyspaceTransaction(self._shared().aio.begin(), await TyrStore._scope(self))

    async def _do(self, operation: Callable[[Any], Awaitable[T]]) -> T:
        """What an operation results in, which is done once more if its keyspace was dropped, and there is another one of its name."""
        try:
            return await operation(await self._scope())
        except errors.NotFound as error:
            if not was_dropped(error):
                raise
            try:
                # The one that is gone is kept if there is none: it is no empty one.
                self._handle = await self._shared().aio.keyspace(self._name)
            except errors.NotFound:
                raise error from None
        return await operation(await self._scope())

    async def _open(self) -> None:
        try:
            await self._scope()
        except errors.NotFound:
            pass  # Nothing is there to be read yet.
        await super()._open()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_handle": None, "_given": None}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, type(self)) or type(other) is not type(self):
            return False
        mine, theirs = (self._place, self._name, self._prefix), (other._place, other._name, other._prefix)
        return mine == theirs and self.read_only == other.read_only

    def __str__(self) -> str:
        place = str(self._place or "")
        url = place if place.startswith(("tyr://", "tyr+tls://")) else "tyr://"
        return f"{url}/{self._name}/{self._prefix}".rstrip("/")

    def __repr__(self) -> str:
        return f"{type(self).__name__}('{self}')"

    def _same(self, kind: type["_Within"], scope: Any, read_only: bool) -> "_Within":
        return kind(self, scope, read_only)

    def with_read_only(self, read_only: bool = False) -> "TyrStore":
        place = self._place if self._given is None else self._given
        return TyrStore(place, self._name, self._prefix, options=self._options, read_only=read_only)

    # Several things at once.

    @contextmanager
    def transaction(self) -> Iterator["TransactionStore"]:
        """A store whose changes happen at one point when the block ends, or not at all after an exception.

        What is read in it is of one point, too, and if somebody changes that meanwhile, the end raises `tyr.Conflict`; `run` tries
        again.
        """
        keyspace = sync(self._anew())
        transaction = self._shared().aio.begin()
        try:
            yield TransactionStore(self, KeyspaceTransaction(transaction, keyspace), self.read_only)
        except BaseException:
            sync(_awaited(transaction.rollback()))
            raise
        sync(_awaited(transaction.commit()))

    def run(self, body: Callable[["TransactionStore"], T]) -> T:
        """Calls a function with a store in a transaction until it commits, and returns what the function returns."""
        keyspace = sync(self._anew())
        tries = self._shared().aio._tries()
        while True:
            transaction = sync(_awaited(tries.begin()))
            try:
                scope = KeyspaceTransaction(transaction, keyspace)
                result = body(TransactionStore(self, scope, self.read_only))
            except Exception as error:
                if sync(_awaited(tries.finish(transaction, failure_of(error)))):
                    raise
            else:
                if sync(_awaited(tries.finish(transaction))):
                    return result

    @contextmanager
    def snapshot(self) -> Iterator["SnapshotStore"]:
        """A store that shows everything as it is now, however it is changed meanwhile; it cannot be written to."""
        keyspace = sync(self._anew())
        snapshot = sync(_awaited(self._shared().aio.snapshot(keyspace)))
        try:
            yield SnapshotStore(self, _Frozen(snapshot, keyspace), True)
        finally:
            snapshot.close()

    # Reading.

    async def get(
        self, key: str, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        if not self._is_open:
            await self._open()
        prototype = prototype or default_buffer_prototype()
        key = self._prefix + key

        async def read(scope: Any) -> Any:
            match byte_range:
                case None:
                    return await scope.read_view(key)
                case RangeByteRequest(start, end):
                    return await scope.read_view(key, start, end)
                case OffsetByteRequest(offset):
                    return await scope.read_view(key, offset)
                case SuffixByteRequest(suffix):
                    reads = await self._reads()
                    size = (await reads.stat(key)).size
                    return await reads.read_view(key, max(0, size - suffix))
                case _:
                    raise ValueError(f"Unexpected byte_range, got {byte_range}.")

        try:
            view = await self._do(read)
        except errors.NotFound as error:
            # Nothing is in a keyspace that is not there yet; of one that is gone nobody knows.
            if was_dropped(error):
                raise
            return None
        return prototype.buffer.from_bytes(view)

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> builtins.list[Buffer | None]:
        async def get(key: str, byte_range: ByteRequest | None) -> Buffer | None:
            return await self.get(key, prototype, byte_range)

        return await concurrent_map(list(key_ranges), get, limit=None)

    async def exists(self, key: str) -> bool:
        try:
            exists: bool = await self._do(lambda scope: scope.exists(self._prefix + key))
        except errors.NotFound:
            return False
        return exists

    async def getsize(self, key: str) -> int:
        try:
            size: int = (await self._do(lambda scope: scope.stat(self._prefix + key))).size
        except errors.NotFound:
            raise FileNotFoundError(key) from None
        return size

    # Writing.

    async def set(self, key: str, value: Buffer) -> None:
        self._check_writable()
        if not self._is_open:
            await self._open()
        data = _data(value)
        await self._do(lambda scope: scope.put(self._prefix + key, data))

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        self._check_writable()
        data = _data(value)

        async def set_missing(scope: Any) -> None:
            if not await scope.exists(self._prefix + key):
                await scope.put(self._prefix + key, data)

        await self._atomically(set_missing)

    async def _set_many(self, values: Iterable[tuple[str, Buffer]]) -> None:
        """All of them are set, or none."""
        self._check_writable()
        given = [(self._prefix + key, _data(value)) for key, value in values]

        async def set_all(scope: Any) -> None:
            for key, data in given:
                await scope.put(key, data)

        await self._atomically(set_all)

    async def delete(self, key: str) -> None:
        self._check_writable()
        try:
            await self._do(lambda scope: scope.delete(self._prefix + key))
        except errors.NotFound:
            pass

    async def delete_dir(self, prefix: str) -> None:
        """All that is in it is gone at once, or nothing, unless it is more than a transaction can delete."""
        self._check_writable()
        prefix = prefix.rstrip("/") + "/" if prefix.strip("/") else ""
        keys = [self._prefix + key async for key in self.list_prefix(prefix)]

        async def delete_all(scope: Any, keys: builtins.list[str]) -> None:
            for key in keys:
                if await scope.exists(key):
                    await scope.delete(key)

        await self._in_batches(keys, delete_all)

    async def clear(self) -> None:
        await self.delete_dir("")

    async def _atomically(self, body: Callable[[Any], Any]) -> None:
        await self._do(lambda keyspace: keyspace.run(body))

    async def _in_batches(self, keys: builtins.list[str], body: Callable[..., Any]) -> None:
        await in_batches(keys, DELETED_MAX, lambda some: self._atomically(partial(body, keys=some)))

    # Listing.

    async def list(self) -> AsyncIterator[str]:
        async for key in self.list_prefix(""):
            yield key

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        after: bytes | None = None
        while True:
            page = await self._page(self._prefix + prefix, after)
            for entry in page:
                yield entry.name[len(self._prefix) :]
            if len(page) < PAGE:
                return
            after = page[-1].key

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        before = (self._prefix + _directory(prefix)).encode()
        after: bytes | None = None
        seen = set()
        while True:
            page = await self._page(before, after)
            for entry in page:
                if after is not None and entry.key <= after:
                    continue
                name, slash, _ = entry.key[len(before) :].partition(b"/")
                # Past all that is in it.
                after = (before + name + b"/").ljust(KEY_SIZE_MAX, b"\xff") if slash else entry.key
                # An array may be beside a directory of its name.
                if name not in seen:
                    seen.add(name)
                    yield name.decode("utf-8", "surrogateescape")
            if len(page) < PAGE:
                return

    async def _page(self, prefix: str | bytes, after: bytes | None) -> builtins.list[Entry]:
        try:
            page: builtins.list[Entry] = await self._do(lambda scope: scope.scan(prefix, after, PAGE))
        except errors.NotFound as error:
            if was_dropped(error):
                raise
            return []
        return page

    # Without an event loop, for code that blocks.

    def _blocking(self) -> _tyr.Keyspace:
        try:
            return self._shared().keyspace(self._name)
        except errors.NotFound:
            if self.read_only:
                raise
            return self._shared().create_keyspace(self._name)

    def get_sync(
        self,
        key: str,
        *,
        prototype: BufferPrototype | None = None,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        """As `get`, for callers that block."""
        prototype = prototype or default_buffer_prototype()
        key = self._prefix + key
        try:
            keyspace = self._blocking()
            match byte_range:
                case None:
                    view = keyspace.read_view(key)
                case RangeByteRequest(start, end):
                    view = keyspace.read_view(key, start, end)
                case OffsetByteRequest(offset):
                    view = keyspace.read_view(key, offset)
                case SuffixByteRequest(suffix):
                    reads = keyspace.transaction()
                    view = reads.read_view(key, max(0, reads.stat(key).size - suffix))
                case _:
                    raise ValueError(f"Unexpected byte_range, got {byte_range}.")
        except errors.NotFound:
            return None
        return prototype.buffer.from_bytes(view)

    def set_sync(self, key: str, value: Buffer) -> None:
        """As `set`, for callers that block."""
        self._check_writable()
        self._blocking().put(self._prefix + key, _data(value))

    def delete_sync(self, key: str) -> None:
        """As `delete`, for callers that block."""
        self._check_writable()
        try:
            self._blocking().delete(self._prefix + key)
        except errors.NotFound:
            pass


class _Within(TyrStore):
    """A store that is seen through a transaction or a snapshot."""

    # They would not be seen through it.
    get_sync = None  # type: ignore[assignment]
    set_sync = None  # type: ignore[assignment]
    delete_sync = None  # type: ignore[assignment]

    def __init__(self, store: TyrStore, scope: Any, read_only: bool) -> None:
        place = store._place if store._given is None else store._given
        super().__init__(place, store._name, store._prefix, options=store._options, read_only=read_only)
        self._within = scope
        self._is_open = True

    async def _scope(self) -> Any:
        return self._within

    async def _reads(self) -> Any:
        return self._within

    def __getstate__(self) -> dict[str, Any]:
        raise TypeError("a store in a transaction or snapshot belongs to its process and cannot be pickled")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Within) and other._within is self._within

    def with_read_only(self, read_only: bool = False) -> Self:
        return type(self)(self, self._within, read_only)

    async def _anew(self) -> Any:
        return self._within

    async def _do(self, operation: Callable[[Any], Awaitable[T]]) -> T:
        return await operation(self._within)

    async def _atomically(self, body: Callable[[Any], Any]) -> None:
        await body(self._within)

    async def _in_batches(self, keys: builtins.list[str], body: Callable[..., Any]) -> None:
        await body(self._within, keys)


class TransactionStore(_Within):
    """A store in a transaction: see `TyrStore.transaction`."""

    def __init__(self, store: TyrStore, scope: Any, read_only: bool) -> None:
        super().__init__(store, scope, read_only)
        self._touched: builtins.set[str] = getattr(store, "_touched", set())

    async def set(self, key: str, value: Buffer) -> None:
        self._touched.add(key)
        await super().set(key, value)

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        self._touched.add(key)
        await super().set_if_not_exists(key, value)

    async def _set_many(self, values: Iterable[tuple[str, Buffer]]) -> None:
        values = list(values)
        self._touched.update(key for key, _ in values)
        await super()._set_many(values)

    async def delete(self, key: str) -> None:
        self._touched.add(key)
        await super().delete(key)

    async def delete_dir(self, prefix: str) -> None:
        inside = prefix.rstrip("/") + "/" if prefix.strip("/") else ""
        self._touched.update([key async for key in self.list_prefix(inside)])
        await super().delete_dir(prefix)

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """What is committed, as this transaction changed it."""
        keyspace = self._within.keyspace
        found = {entry.name[len(self._prefix) :] async for entry in keyspace.scan_all(self._prefix + prefix)}
        for key in self._touched:
            if key.startswith(prefix):
                (found.add if await self.exists(key) else found.discard)(key)
        for key in sorted(found):
            yield key

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        inside = _directory(prefix)
        names = {key[len(inside) :].partition("/")[0]: None async for key in self.list_prefix(inside)}
        for name in names:
            yield name


class SnapshotStore(_Within):
    """A store in a snapshot: see `TyrStore.snapshot`."""


class _Frozen:
    """A snapshot seen from one keyspace."""

    def __init__(self, snapshot: Any, keyspace: AioKeyspace) -> None:
        self._snapshot, self._keyspace = snapshot, keyspace

    def __getattr__(self, name: str) -> Any:
        operation = getattr(self._snapshot, name)
        return lambda *arguments: operation(self._keyspace, *arguments)


def _data(value: Buffer) -> Any:
    if not isinstance(value, Buffer):
        raise TypeError(f"`value` must be a Buffer instance. Got an instance of {type(value)} instead.")
    return value.as_numpy_array()


async def _awaited(operation: Any) -> Any:
    return await operation


def _directory(prefix: str) -> str:
    """What all keys in a directory begin with."""
    return prefix.strip("/") + "/" if prefix.strip("/") else ""


PAGE = 1000
"""Blobs that are listed at once."""
KEY_SIZE_MAX = 4096
"""Bytes of the longest key."""
DELETED_MAX = 2000
"""Blobs that are deleted at once at most: what a transaction of a cluster does within some seconds."""
