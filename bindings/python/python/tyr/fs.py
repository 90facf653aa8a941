"""A file system for fsspec, and with that for pandas, dask, and whatever else opens URLs.

Paths are ``keyspace/key``; URLs ``tyr://host:port,host:port/keyspace/key``, or ``tyr:///keyspace/key`` for the store that the option
`store` or the variable ``TYR_STORE`` names. Directories are what keys have in common before a slash; there are no empty ones, but
keyspaces may be empty.

Every operation is atomic: a file that is written appears as a whole when it is closed, several are moved or deleted at once, and

>>> import tyr.fs
>>> fs = tyr.fs.TyrFileSystem(store)
>>> with fs.transaction:
...     fs.pipe_file("events/a", b"one")
...     with fs.open("events/b", "wb") as file:
...         _ = file.write(b"two")
>>> fs.cat(["events/a", "events/b"])
{'events/a': b'one', 'events/b': b'two'}

happens as a whole or not at all. A file that is open for reading shows one version, however it is changed meanwhile; listings are
never cached.
"""

import asyncio
import contextlib
import contextvars
import errno
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, TypeVar

from fsspec.asyn import AsyncFileSystem, _run_coros_in_chunks, sync
from fsspec.compression import compr
from fsspec.core import get_compression
from fsspec.json import FilesystemJSONEncoder
from fsspec.transaction import Transaction as FsspecTransaction
from fsspec.utils import tokenize

from . import errors
from ._file import Compressed, Dropped, Text, TyrFile, anew, as_os_errors, file_info, finish
from ._shared import adopt, in_batches, name_of, shared, was_dropped
from ._run_aio import KeyspaceTransaction
from ._tyr import AioKeyspace, AioStore, AioTransaction, Entry, Stat, Store

T = TypeVar("T")

_running: contextvars.ContextVar[AioTransaction | None] = contextvars.ContextVar("tyr_fs_running", default=None)


class FileTransaction(FsspecTransaction):  # type: ignore[misc]
    """What `fs.transaction` is: all that is written, copied, moved, and deleted until its end happens at one point, or nothing.

    What is read meanwhile is as this transaction left it, and as of one point; the end raises `tyr.Conflict` if somebody changed it.
    Listings show what is committed.
    """

    def start(self) -> None:
        fs = self.fs
        if fs._transaction_running is not None:
            raise errors.Invalid("a transaction of this file system runs already, and goes on; there is none within another")
        # A handle of a keyspace that was dropped would only be noticed at the end.
        fs._keyspaces.clear()
        fs._transaction_running = fs.store.aio.begin()
        super().start()

    def complete(self, commit: bool = True) -> None:
        fs = self.fs
        if fs is None or fs._transaction_running is None:
            raise errors.Invalid("no transaction of this file system runs")
        transaction, files = fs._transaction_running, list(self.files)
        self.files.clear()
        is_whole = False
        try:
            if commit:
                for file in files:
                    # One that is still open has not said what it holds.
                    if not file.closed:
                        file.close()
            is_whole = commit
        finally:
            try:
                if not is_whole:
                    for file in files:
                        file.discard()
                sync(fs._loop_to_use(), finish, transaction, is_whole)
            finally:
                fs._transaction_running = None
                super().complete(is_whole)


class TyrFileSystem(AsyncFileSystem):  # type: ignore[misc]
    """Files in a Týr store.

    `store` is a directory, the URL of a cluster, an open `tyr.Store`, or `None` for what ``TYR_STORE`` names. `options` are those
    of `tyr.open`, for a store that is not open yet; `settings` those of `tyr.Store.create_keyspace`, for keyspaces that are made.
    """

    protocol = ("tyr", "tyr+tls")
    root_marker = ""
    transaction_type = FileTransaction
    cachable = False

    def __init__(
        self,
        store: str | os.PathLike[str] | Store | None = None,
        *,
        options: dict[str, Any] | None = None,
        settings: dict[str, Any] | None = None,
        **named: Any,
    ) -> None:
        super().__init__(store=store, options=options, settings=settings, **named)
        self._given = store if isinstance(store, Store) else None
        if isinstance(store, Store):
            store = adopt(store)
        self._place: str | None = store if store is None else name_of(store)
        self._options = options
        self._settings = settings or {}
        self._keyspaces: dict[str, AioKeyspace] = {}
        self._store: Store | None = None
        self._transaction_running: AioTransaction | None = None

    def _arguments(self) -> dict[str, Any]:
        """What it is made from, in any process: a store that was given open is named, and a loop is the process's own."""
        others = {name: value for name, value in self.storage_options.items() if name != "loop"}
        own = {"store": self._place, "options": self._options, "settings": self._settings}
        return {**others, **own, "asynchronous": self.asynchronous}

    def __reduce__(self) -> Any:
        return _remade, (type(self), self._arguments())

    @property
    def _fs_token(self) -> str:
        """What it is equal by. That of fsspec is another one in each process, and for each object that a store is."""
        arguments = {**self._arguments(), "options": sorted((self._options or {}).items())}
        token: str = tokenize(type(self), sorted({**arguments, "settings": sorted(self._settings.items())}.items()))
        return token

    def to_dict(self, *, include_password: bool = True) -> dict[str, Any]:
        """What it is made from; a store that was given open is named. Without passwords it has no token."""
        options = dict(self._options or {})
        if not include_password:
            options.pop("token", None)
        given = {"store": self._place, "options": options, "settings": self._settings}
        given = {**self.storage_options, **{name: value or None for name, value in given.items()}}
        if not include_password:
            given.pop("password", None)
        given = {name: value for name, value in given.items() if value is not None}
        place = {"cls": f"{type(self).__module__}:{type(self).__name__}", "protocol": self.protocol[0], "args": []}
        return {**place, **FilesystemJSONEncoder().make_serializable(given)}

    @property
    def fsid(self) -> str:
        """Names the store."""
        return f"tyr_{self._place}"

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(each) for each in path]
        return _parse(os.fspath(path))[1]

    @staticmethod
    def _get_kwargs_from_urls(path: str) -> dict[str, Any]:
        place = _parse(path)[0]
        return {"store": place} if place else {}

    def unstrip_protocol(self, name: str) -> str:
        name = self._strip_protocol(name)
        place = str(self._place or "")
        return f"{place}/{name}" if place.startswith(("tyr://", "tyr+tls://")) else f"tyr:///{name}"

    @property
    def store(self) -> Store:
        """The open store. One that was given open is not opened again when somebody has closed it."""
        if self._given is not None:
            return self._given
        if self._store is None or self._store.closed:
            self._store = shared(self._place, self._options)
            self._keyspaces.clear()
        return self._store

    def start_transaction(self) -> FileTransaction:
        """Begins what `with fs.transaction` is around, until `end_transaction` or, to forget it, `fs.transaction.complete(False)`."""
        transaction: FileTransaction = self.transaction
        transaction.start()
        return transaction

    def _loop_to_use(self) -> Any:
        return self.loop

    def invalidate_cache(self, path: str | None = None) -> None:
        """Nothing is cached."""

    # What names lead to.

    def _split(self, path: str) -> tuple[str, str]:
        keyspace, _, key = self._strip_protocol(path).partition("/")
        return keyspace, key

    def _blob(self, path: str) -> tuple[str, str]:
        keyspace, key = self._split(path)
        if not keyspace or not key:
            raise IsADirectoryError(errno.EISDIR, "a keyspace is a directory", path)
        return keyspace, key

    async def _keyspace(self, name: str, makes: bool = False) -> AioKeyspace:
        """The handle of a keyspace, which is made if it is to be and does not exist."""
        aio: AioStore = self.store.aio
        known = self._keyspaces.get(name)
        if known is not None:
            return known
        try:
            found = await aio.keyspace(name)
        except errors.Invalid as error:
            raise FileNotFoundError(errno.ENOENT, str(error), name) from error
        except errors.NotFound:
            if not makes:
                raise
            await self._makedirs(name, exist_ok=True)
            found = await aio.keyspace(name)
        self._keyspaces[name] = found
        return found

    def _now_running(self) -> AioTransaction | None:
        return _running.get() or self._transaction_running

    async def _scope(self, name: str) -> Any:
        """What reads and writes blobs of a keyspace: the keyspace, or the transaction that runs."""
        keyspace = await self._keyspace(name)
        running = self._now_running()
        return KeyspaceTransaction(running, keyspace) if running else keyspace

    async def _run(self, body: Callable[[AioTransaction], Awaitable[None]]) -> None:
        """Does several steps in the transaction that runs, or in one of their own until it commits."""
        running = self._now_running()
        if running is not None:
            await body(running)
            return

        async def within(transaction: AioTransaction) -> None:
            token = _running.set(transaction)
            try:
                await body(transaction)
            finally:
                _running.reset(token)

        await self.store.aio.run(within)

    # What is there.

    @anew
    async def _info(self, path: str, **named: Any) -> dict[str, Any]:
        path = self._strip_protocol(path)
        name, key = self._split(path)
        if not name:
            return _directory("")
        if len(_encode(key)) > KEY_SIZE_MAX:
            # There is nothing of that name, which is what callers who look for it ask.
            raise FileNotFoundError(errno.ENAMETOOLONG, f"a key has at most {KEY_SIZE_MAX} bytes", path)
        with self._finding(path):
            if not key:
                keyspace = await self.store.aio.keyspace(name)
                # A client of a cluster may know one still that another has dropped. Who is asked for something in it says so.
                with contextlib.suppress(errors.Denied):
                    await keyspace.exists(b"\0")
                return _directory(name)
            scope = await self._scope(name)
            try:
                return file_info(path, await scope.stat(key))
            except errors.NotFound:
                keyspace = await self._keyspace(name)
                prefix = _encode(key.rstrip("/") + "/")
                if len(prefix) <= KEY_SIZE_MAX and await keyspace.scan(prefix, None, 1):
                    return _directory(path.rstrip("/"))
                raise

    @contextlib.contextmanager
    def _finding(self, path: str) -> Iterator[None]:
        try:
            with as_os_errors(path):
                yield
        except FileNotFoundError as error:
            if not isinstance(error.__cause__, errors.NotFound) or not was_dropped(error.__cause__):
                raise
            self._keyspaces.clear()
            raise Dropped(*error.args, error.filename) from error.__cause__

    async def _ls(self, path: str, detail: bool = True, **named: Any) -> Any:
        path = self._strip_protocol(path).rstrip("/")
        name, key = self._split(path)
        if not name:
            with as_os_errors(path):
                found = [_directory(each.name) for each in await self.store.aio.keyspaces()]
        else:
            found = [each async for each in self._list(name, key)]
            if not found and key:
                found = [await self._info(path)]
            elif not found:
                await self._info(path)
        return found if detail else [each["name"] for each in found]

    async def _list(self, name: str, key: str) -> AsyncIterator[dict[str, Any]]:
        prefix = _encode(key + "/" if key else "")
        after: bytes | None = None
        while True:
            page = await self._page(name, prefix, after)
            for entry in page:
                if after is not None and entry.key <= after:
                    continue
                head, slash, _ = entry.key[len(prefix) :].partition(b"/")
                after = entry.key
                if slash:
                    yield _directory(f"{name}/{_decode(prefix + head)}")
                    # Past all that is in it.
                    after = (prefix + head + b"/").ljust(KEY_SIZE_MAX, b"\xff")
                else:
                    found = {"name": f"{name}/{entry.name}", "size": entry.size, "type": "file"}
                    yield {**found, "version": entry.version}
            if len(page) < PAGE:
                return

    @anew
    async def _page(self, name: str, prefix: bytes, after: bytes | None) -> list[Entry]:
        if len(prefix) > KEY_SIZE_MAX:
            return []
        with self._finding(f"{name}/{_decode(prefix)}".rstrip("/")):
            return await (await self._keyspace(name)).scan(prefix, after, PAGE)

    async def _entries(self, name: str, prefix: bytes) -> AsyncIterator[Entry]:
        """All blobs whose keys begin so."""
        after: bytes | None = None
        while True:
            page = await self._page(name, prefix, after)
            for entry in page:
                yield entry
            if len(page) < PAGE:
                return
            after = page[-1].key

    def ukey(self, path: str) -> str:
        """Changes whenever the file does."""
        info = self.info(path)
        return f"{self._place}:{info['name']}:{info.get('blob')}:{info.get('version')}"

    # Reading.

    @anew
    async def _cat_file(self, path: str, start: int | None = None, end: int | None = None, **named: Any) -> bytes:
        name, key = self._blob(path)
        with self._finding(path):
            scope = await self._scope(name)
            if (start or 0) >= 0 and (end is None or end >= 0):
                if end is not None and end <= (start or 0):
                    await scope.stat(key)
                    return b""
                content: bytes = await scope.read(key, start or 0, end)
                return content
            # From the end: size and bytes have to be of one version.
            if isinstance(scope, AioKeyspace):
                scope = KeyspaceTransaction(self.store.aio.begin(), scope)
            size = (await scope.stat(key)).size
            first, last, _ = slice(start, end).indices(size)
            content = await scope.read(key, first, max(first, last))
            return content

    async def _pieces(self, path: str, transaction: AioTransaction) -> AsyncIterator[Any]:
        """A file piece by piece, all of one version."""
        name, key = self._blob(path)
        with self._finding(path):
            keyspace = await self._keyspace(name)
            offset = 0
            while True:
                piece = await transaction.read_view(keyspace, key, offset, offset + PIECE)
                if not len(piece):
                    return
                yield piece
                offset += len(piece)
                if len(piece) < PIECE:
                    return

    async def _stat(self, path: str, transaction: AioTransaction) -> Stat:
        """What a file is, of the version that the transaction reads."""
        name, key = self._blob(path)
        with self._finding(path):
            return await transaction.stat(await self._keyspace(name), key)

    @anew
    async def _get_file(self, rpath: str, lpath: str, callback: Any = None, **named: Any) -> None:
        if await self._isdir(rpath):
            os.makedirs(lpath, exist_ok=True)
            return
        os.makedirs(os.path.dirname(os.path.abspath(lpath)), exist_ok=True)
        transaction = self._now_running() or self.store.aio.begin()
        pieces = self._pieces(rpath, transaction)
        # What is there stays if there is nothing to put in its place.
        piece = await anext(pieces, b"")
        if callback is not None:
            # A piece that is short is all there is.
            callback.set_size(len(piece) if len(piece) < PIECE else (await self._stat(rpath, transaction)).size)
        offset = 0
        with open(lpath, "wb") as file:
            while len(piece):
                await asyncio.to_thread(file.write, piece)
                offset += len(piece)
                if callback is not None:
                    callback.absolute_update(offset)
                piece = await anext(pieces, b"")

    async def _get(self, rpath: Any, lpath: Any, recursive: bool = False, *arguments: Any, **named: Any) -> Any:
        is_expanded = not (isinstance(rpath, list) and isinstance(lpath, list))
        if recursive and is_expanded and len(arguments) < 2 and named.get("maxdepth") is None:
            await self._check_named(rpath)
        return await super()._get(rpath, lpath, recursive, *arguments, **named)

    # Writing.

    @anew
    async def _pipe_file(self, path: str, value: Any, mode: str = "overwrite", **named: Any) -> None:
        _check_mode(mode)
        name, key = self._blob(path)

        async def create(transaction: AioTransaction) -> None:
            keyspace = await self._keyspace(name)
            await transaction.create(keyspace, key)
            await transaction.put(keyspace, key, value)

        with self._finding(path):
            if mode == "create":
                # Of several at once all but one are tried again, and find it.
                await self._run(create)
            else:
                await (await self._scope(name)).put(key, value)

    @anew
    async def _put_file(
        self, lpath: str, rpath: str, mode: str = "overwrite", callback: Any = None, **named: Any
    ) -> None:
        _check_mode(mode)
        if os.path.isdir(lpath):
            await self._makedirs(rpath, exist_ok=True)
            return
        name, key = self._blob(rpath)
        with self._finding(rpath), open(lpath, "rb") as file:
            if callback is not None and file.seekable():
                callback.set_size(os.fstat(file.fileno()).st_size)
            offset = 0

            async def put(transaction: AioTransaction) -> None:
                nonlocal offset
                keyspace = await self._keyspace(name)
                if mode == "create":
                    await transaction.create(keyspace, key)
                if offset:
                    # Tried again. A pipe cannot be, and says so.
                    offset = file.seek(0)
                while piece := await asyncio.to_thread(file.read, PIECE):
                    await _write_piece(transaction, keyspace, key, offset, piece)
                    offset += len(piece)
                    if callback is not None:
                        callback.absolute_update(offset)
                if not offset:
                    await transaction.put(keyspace, key, b"")

            await self._run(put)

    async def _copy(
        self,
        path1: Any,
        path2: Any,
        recursive: bool = False,
        on_error: str | None = None,
        maxdepth: int | None = None,
        **named: Any,
    ) -> None:
        skips = on_error == "ignore" or (on_error is None and recursive)
        # That something is missing is not passed over in general: it has to be what is copied, and not where it should go.
        named = {**named, "makes": recursive, "skips": skips}
        if recursive and maxdepth is None and not (isinstance(path1, list) and isinstance(path2, list)):
            await self._check_named(path1)
        await super()._copy(path1, path2, recursive, "raise", maxdepth, **named)

    async def _check_named(self, path: Any) -> None:
        """Fails if something in a tree would be left out because no path leads to it."""
        for each in await self._expand_path(path):
            name, key = self._split(each)
            prefix = _encode(key + "/" if key else "")
            if not name:
                continue
            async for entry in self._entries(name, prefix):
                if b"" in entry.key[len(prefix) :].split(b"/"):
                    told = f"the key '{entry.name}' has an empty part, so that no path names it in a tree"
                    raise OSError(errno.EINVAL, told, each)

    def _compared(self, path: str) -> str:
        """A path as it is compared with others."""
        place: str = self._strip_protocol(path)
        return place.rstrip("/")

    @anew
    async def _cp_file(
        self,
        path1: str,
        path2: str,
        moves: bool = False,
        makes: bool = False,
        skips: bool = False,
        plan: list[tuple[str, str]] | None = None,
        **named: Any,
    ) -> None:
        """Copies a file. Its keyspace is made, or it is passed over if it is missing, if that is wanted.

        With a plan it is only noted there, from where to where.
        """
        if moves and self._compared(path1) == self._compared(path2):
            raise OSError(errno.EINVAL, "it cannot be moved to where it is", path1)
        if plan is not None:
            plan.append((path1, path2))
            return
        if await self._isdir(path1) and not await self._isfile(path1):
            await self._makedirs(path2, exist_ok=True)
            return
        name, key = self._blob(path2)
        outer = self._now_running()

        async def copy(transaction: AioTransaction) -> None:
            # Read first, in case that it is the same blob; and by itself, so that it does not matter if somebody writes to it meanwhile.
            reading = outer or self.store.aio.begin()
            try:
                attributes = (await self._stat(path1, reading)).attributes
                pieces = [piece async for piece in self._pieces(path1, reading)]
            except Dropped:
                raise
            except FileNotFoundError:
                if skips:
                    return
                raise
            keyspace = await self._keyspace(name, makes)
            before = await _attributes(transaction, keyspace, key)
            await transaction.put(keyspace, key, pieces[0] if pieces else b"")
            for number, piece in enumerate(pieces[1:], 1):
                await transaction.write(keyspace, key, number * PIECE, piece)
            # Those of what was there stay when it is put.
            for each in before.keys() | attributes.keys():
                if before.get(each) != attributes.get(each):
                    await transaction.set_attribute(keyspace, key, each, attributes.get(each))

        with self._finding(path2):
            await self._run(copy)

    @anew
    async def _mv(self, path1: str, path2: str, recursive: bool = False, maxdepth: int | None = None) -> None:
        keyspaces: list[str] = []

        async def move(_transaction: AioTransaction) -> None:
            plan: list[tuple[str, str]] = []
            await self._copy(path1, path2, recursive, on_error="raise", maxdepth=maxdepth, moves=True, plan=plan)
            # One after the other is copied, and what was there before is removed at the end.
            both = {self._compared(source) for source, _ in plan} & {self._compared(target) for _, target in plan}
            if both:
                told = "something would be moved to where this is, which is moved itself; move it elsewhere first"
                raise OSError(errno.EINVAL, told, min(both))
            copies = [self._cp_file(source, target, makes=recursive) for source, target in plan]
            # All end before the first failure is passed on, and with it the transaction ends.
            ended = await _run_coros_in_chunks(copies, self.batch_size, return_exceptions=True, nofiles=True)
            for failure in ended:
                if isinstance(failure, BaseException):
                    raise failure
            # What has come to be in a tree meanwhile is not moved, and stays.
            moved = {self._compared(source) for source, _ in plan}
            keyspaces[:] = await self._rm_files(path1, recursive, maxdepth, moved)

        with self._finding(str(path1)):
            await self._run(move)
        # They are not of the transaction: what has come to be in one meanwhile keeps it.
        for each in keyspaces:
            with contextlib.suppress(OSError):
                await self._rmdir(each)

    def mv(
        self, path1: str, path2: str, recursive: bool = False, maxdepth: int | None = None, **named: Any
    ) -> None:
        """Moves files at one point in time."""
        if self._strip_protocol(path1) != self._strip_protocol(path2):
            sync(self.loop, self._mv, path1, path2, recursive=recursive, maxdepth=maxdepth)

    @anew
    async def _mv_file(self, path1: str, path2: str) -> None:
        async def move(_transaction: AioTransaction) -> None:
            await self._cp_file(path1, path2, moves=True)
            await self._rm_file(path1)

        with self._finding(path1):
            await self._run(move)

    @anew
    async def _rm_file(self, path: str, **named: Any) -> None:
        name, key = self._blob(path)
        with self._finding(path):
            await (await self._scope(name)).delete(key)

    async def _rm(
        self,
        path: Any,
        recursive: bool = False,
        batch_size: int | None = None,
        maxdepth: int | None = None,
        **named: Any,
    ) -> None:
        if recursive and maxdepth is None:
            keyspaces = await self._rm_trees(path)
        else:
            keyspaces = await self._rm_files(path, recursive, maxdepth)
        for each in keyspaces:
            if maxdepth is not None:
                # What is deeper stays.
                with contextlib.suppress(OSError):
                    await self._rmdir(each)
                continue
            with as_os_errors(each), contextlib.suppress(errors.NotFound):
                await self.store.aio.drop_keyspace(each)
            self._keyspaces.pop(each, None)

    @anew
    async def _rm_trees(self, path: Any) -> list[str]:
        """Removes all that is at paths and below, also what no path names, and tells which keyspaces are to go."""
        found: dict[tuple[str, bytes], None] = {}
        keyspaces = []
        for each in await self._expand_path(path):
            name, key = self._split(each)
            if (await self._info(each))["type"] == "file":
                found[name, _encode(key)] = None
            if not key:
                self._check_removable([name])
                keyspaces.append(name)
            async for entry in self._entries(name, _encode(key + "/" if key else "")):
                found[name, entry.key] = None

        async def remove(some: list[tuple[str, bytes]]) -> None:
            async def delete(transaction: AioTransaction) -> None:
                for name, blob in some:
                    keyspace = await self._keyspace(name)
                    try:
                        await transaction.delete(keyspace, blob)
                    except errors.NotFound as error:
                        # Others have removed it since, or the transaction that runs has.
                        if was_dropped(error):
                            raise

            with self._finding(str(path)):
                await self._run(delete)

        await self._in_batches(list(found), remove)
        return keyspaces

    async def _in_batches(self, many: list[T], remove: Callable[[list[T]], Awaitable[None]]) -> None:
        """Removes many, by the transaction that runs, or by as many as it takes."""
        if self._now_running() is not None:
            await remove(many)
        else:
            await in_batches(many, REMOVED_MAX, remove)

    def _check_removable(self, keyspaces: list[str]) -> None:
        if "" in keyspaces:
            raise OSError(errno.EBUSY, "the store itself is not removed; name its keyspaces", "")
        if keyspaces and self._transaction_running is not None:
            raise OSError(errno.EBUSY, "a keyspace is not removed in a transaction", keyspaces[0])

    async def _rm_files(
        self, path: Any, recursive: bool = False, maxdepth: int | None = None, only: set[str] | None = None
    ) -> list[str]:
        """Removes the files, or of them only some, and tells which keyspaces are to go."""
        paths = await self._expand_path(path, recursive=recursive, maxdepth=maxdepth)
        files, keyspaces = [], []
        for each in paths:
            name, key = self._split(each)
            if not key:
                keyspaces.append(name)
            elif await self._isfile(each):
                if only is None or self._compared(each) in only:
                    files.append(each)
            elif not recursive:
                await self._info(each)
                raise IsADirectoryError(errno.EISDIR, "a directory is removed recursively", each)
        if keyspaces and not recursive:
            raise IsADirectoryError(errno.EISDIR, "a keyspace is removed recursively", keyspaces[0])
        self._check_removable(keyspaces)

        async def remove(some: list[str]) -> None:
            async def delete(_transaction: AioTransaction) -> None:
                for each in some:
                    try:
                        await self._rm_file(each)
                    except FileNotFoundError as error:
                        # Others have removed it since, or the transaction that runs has.
                        if not recursive or isinstance(error, Dropped):
                            raise

            with as_os_errors(str(path)):
                await self._run(delete)

        await self._in_batches(files, remove)
        return keyspaces

    async def _mkdir(self, path: str, create_parents: bool = True, **named: Any) -> None:
        name, key = self._split(path)
        if not key:
            with as_os_errors(path):
                await self.store.aio.create_keyspace(name, **self._settings)
        elif create_parents:
            await self._makedirs(name, exist_ok=True)

    async def _makedirs(self, path: str, exist_ok: bool = False) -> None:
        name, key = self._split(path)
        try:
            await self._mkdir(name)
        except FileExistsError:
            if not key and not exist_ok:
                raise

    @anew
    async def _rmdir(self, path: str) -> None:
        name, key = self._split(path)
        with self._finding(path):
            if key:
                await self._info(path)
                raise OSError(errno.ENOTEMPTY, "there are files in it", path)
            if await (await self._keyspace(name)).scan(b"", None, 1):
                raise OSError(errno.ENOTEMPTY, "there are files in it", path)
            await self.store.aio.drop_keyspace(name)
        self._keyspaces.pop(name, None)

    def rmdir(self, path: str) -> None:
        """Drops a keyspace that is empty."""
        sync(self.loop, self._rmdir, path)

    @anew
    async def _touch(self, path: str, truncate: bool = True, **named: Any) -> None:
        name, key = self._blob(path)
        with self._finding(path):
            scope = await self._scope(name)
            if truncate:
                await scope.put(key, b"")
            else:
                await scope.append(key, b"")

    def touch(self, path: str, truncate: bool = True, **named: Any) -> None:
        """Makes a file empty, or makes an empty one."""
        sync(self.loop, self._touch, path, truncate=truncate)

    # Open files.

    def open(
        self,
        path: str,
        mode: str = "rb",
        block_size: Any = None,
        cache_options: Any = None,
        compression: str | None = None,
        **named: Any,
    ) -> Any:
        """Opens a file. One that is written is there when it is closed; an exception that leaves its block forgets it."""
        if "r" in mode or ("b" in mode and compression is None):
            return super().open(path, mode, block_size, cache_options, compression, **named)
        text = {name: named.pop(name) for name in ("encoding", "errors", "newline") if name in named}
        autocommit = named.pop("autocommit", not self._intrans)
        binary = mode.replace("b", "").replace("t", "") + "b"
        compression = get_compression(path, compression)
        named = {**named, "autocommit": autocommit, "cache_options": cache_options}
        opened: Any = self._open(self._strip_protocol(path), binary, block_size, **named)
        file = opened
        try:
            if compression is not None:
                opened = Compressed(compr[compression](file, mode=binary[0]), file)
            if "b" not in mode:
                opened = Text(opened, file, **text)
        except BaseException:
            file.discard()
            raise
        if not autocommit:
            self.transaction.files.append(opened)
        return opened

    def _open(
        self, path: str, mode: str = "rb", block_size: Any = None, autocommit: bool = True, **named: Any
    ) -> TyrFile:
        self._blob(path)
        return TyrFile(self, path, mode, block_size, autocommit=autocommit, **named)


def _check_mode(mode: str) -> None:
    if mode not in MODES:
        raise ValueError(f"a file is written in the mode 'overwrite' or 'create', and not in {mode!r}")


async def _write_piece(
    transaction: AioTransaction, keyspace: AioKeyspace, key: str, offset: int, piece: Any
) -> None:
    if offset:
        await transaction.write(keyspace, key, offset, piece)
    else:
        await transaction.put(keyspace, key, piece)


async def _attributes(transaction: AioTransaction, keyspace: AioKeyspace, key: str) -> dict[str, bytes]:
    """The attributes of a blob, which has none if it is not there."""
    try:
        return (await transaction.stat(keyspace, key)).attributes
    except errors.NotFound as error:
        if was_dropped(error):
            raise
        return {}


def _directory(name: str) -> dict[str, Any]:
    return {"name": name, "size": 0, "type": "directory"}


def _parse(path: str) -> tuple[str | None, str]:
    """The store that a URL names, if it does, and the path in it."""
    for scheme in ("tyr://", "tyr+tls://"):
        if not path.startswith(scheme):
            continue
        rest = path[len(scheme) :]
        if rest.startswith("unix:"):
            # The path of a socket has slashes itself; what follows it begins with two.
            place, _, inside = rest.partition("//")
            return scheme + place, inside.rstrip("/")
        place, _, inside = rest.partition("/")
        if not place:
            return None, inside.strip("/")
        if ":" in place:
            return scheme + place, inside.strip("/")
        # As other file systems have it: what comes first is the outermost directory.
        return None, rest.strip("/")
    return None, path.strip("/")


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _decode(key: bytes) -> str:
    return key.decode("utf-8", "surrogateescape")


def _remade(kind: type[TyrFileSystem], arguments: dict[str, Any]) -> TyrFileSystem:
    return kind(**arguments)


MODES = ("overwrite", "create")
"""What becomes of a file that is there when a whole one is written."""
PAGE = 1000
"""Blobs that are listed at once."""
KEY_SIZE_MAX = 4096
"""Bytes of the longest key."""
PIECE = 8 << 20
"""Bytes that are copied at once."""
REMOVED_MAX = 2000
"""Files that are removed at once at most: what a transaction of a cluster does within some seconds."""
