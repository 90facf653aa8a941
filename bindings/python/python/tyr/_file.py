"""Open files of the file system for fsspec."""

import codecs
import contextlib
import errno
import functools
import io
import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any

from fsspec.asyn import sync
from fsspec.core import OpenFile
from fsspec.spec import AbstractBufferedFile

from . import errors
from ._run_aio import KeyspaceTransaction
from ._tyr import AioTransaction

if TYPE_CHECKING:
    from .fs import TyrFileSystem


@contextlib.contextmanager
def as_os_errors(path: str) -> Iterator[None]:
    """Failures as Python knows them of files."""
    try:
        yield
    except errors.NotFound as error:
        raise FileNotFoundError(errno.ENOENT, str(error), path) from error
    except errors.Exists as error:
        raise FileExistsError(errno.EEXIST, str(error), path) from error
    except errors.Denied as error:
        raise PermissionError(errno.EACCES, str(error), path) from error
    except errors.Full as error:
        raise OSError(errno.ENOSPC, str(error), path) from error


class Dropped(FileNotFoundError):
    """The keyspace of a handle that was known is not there any more; another one of its name may be."""


def anew(operation: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
    """An operation that is done once more, with new handles, if it met a keyspace that was dropped."""

    @functools.wraps(operation)
    async def done(self: "TyrFileSystem", *arguments: Any, **named: Any) -> Any:
        try:
            return await operation(self, *arguments, **named)
        except Dropped:
            return await operation(self, *arguments, **named)

    return done


async def finish(transaction: AioTransaction, commit: bool) -> None:
    """Ends a transaction, one way or the other."""
    if commit:
        await transaction.commit()
    else:
        await transaction.rollback()


def file_info(name: str, stat: Any) -> dict[str, Any]:
    """What `info` says of a file."""
    found = {"name": name, "size": stat.size, "type": "file", "version": stat.version, "blob": stat.blob}
    return {**found, "attributes": stat.attributes}


class TyrFile(AbstractBufferedFile):  # type: ignore[misc]
    """A file of a store. One that is read shows one version; one that is written appears as a whole when it is closed."""

    def __init__(self, fs: "TyrFileSystem", path: str, mode: str = "rb", *arguments: Any, **named: Any) -> None:
        self._scope: Any = None
        self._own: AioTransaction | None = None
        self._is_forgotten = False
        self._process = os.getpid()
        self.path = path
        self._key = fs._blob(path)[1]
        self._fs_loop = fs._loop_to_use()
        sync(self._fs_loop, self._begin, fs, mode)
        super().__init__(fs, path, mode, *arguments, **named)

    async def _begin(self, fs: "TyrFileSystem", mode: str) -> None:
        name, key = fs._blob(self.path)
        if mode != "rb":
            # If its keyspace was dropped, it would be noticed when the file is closed.
            fs._keyspaces.pop(name, None)
        running = fs._now_running()
        if running is None:
            running = self._own = fs.store.aio.begin()

        @anew
        async def look(fs: "TyrFileSystem") -> None:
            with fs._finding(self.path):
                self._scope = KeyspaceTransaction(running, await fs._keyspace(name))
                if mode == "xb":
                    await self._scope.create(key)
                elif mode == "rb":
                    self._details = file_info(fs._strip_protocol(self.path), await self._scope.stat(key))

        try:
            await look(fs)
        except FileNotFoundError as error:
            if await fs._isdir(self.path):
                raise IsADirectoryError(errno.EISDIR, "it is a directory", self.path) from error
            raise

    def _is_inherited(self) -> bool:
        """Whether this process was forked after it was opened: then nobody is here who would do anything for it."""
        return self._process != os.getpid()

    def _check_process(self) -> None:
        if self._is_inherited():
            told = "the file was opened before this process was forked; open the store and the file again in this process"
            raise errors.Unavailable(f"{told}, or start processes with 'spawn'")

    def _do(self, operation: str, *arguments: Any) -> Any:
        self._check_process()

        async def act() -> Any:
            return await getattr(self._scope, operation)(*arguments)

        with as_os_errors(self.path):
            return sync(self._fs_loop, act)

    def _fetch_range(self, start: int, end: int) -> bytes:
        content: bytes = self._do("read", self._key, start, end)
        return content

    def _initiate_upload(self) -> None:
        if self.mode == "wb":
            self._do("put", self._key, b"")

    def _upload_chunk(self, final: bool = False) -> bool:
        data = self.buffer.getbuffer()
        if self.mode == "ab":
            self._do("append", self._key, data)
        elif len(data):
            self._do("write", self._key, self.offset, data)
        if final and self._own is not None and self.autocommit:
            self._commit(self._own)
        return True

    def _commit(self, own: AioTransaction) -> None:
        self._check_process()

        async def commit() -> None:
            try:
                await finish(own, True)
            except errors.Conflict as error:
                # What was written is not kept to be written again. It is known why if the file was to be new.
                if self.mode == "xb" and await self._scope.keyspace.exists(self._key):
                    raise FileExistsError(errno.EEXIST, "somebody else has created it since", self.path) from error
                raise

        with as_os_errors(self.path):
            sync(self._fs_loop, commit)

    def write(self, data: Any) -> int:
        """Writes more bytes."""
        if not self._is_forgotten:
            self._check_process()
        written: int = super().write(data)
        return written

    def flush(self, force: bool = False) -> None:
        """Sends what was written to the store, which does not show it before it is committed."""
        if self._is_forgotten:
            self.buffer = io.BytesIO()
        else:
            super().flush(force)

    def close(self) -> None:
        """Commits what was written."""
        if self.mode == "rb" or self._is_forgotten or self._is_inherited() or sys.is_finalizing():
            # Nothing is left to be done, or nobody is left who does it: what was not committed is rolled back when it is forgotten,
            # which is for the process that has opened it to do.
            self.cache, self._own, self.closed = None, None, True
            return
        if not self.closed and _is_left_by_exception(self):
            self.discard()
            return
        try:
            super().close()
        finally:
            if self._own is not None and self.autocommit:
                own, self._own = self._own, None
                sync(self._fs_loop, finish, own, False)

    def __exit__(self, kind: Any, *error: Any) -> None:
        """What was written before an exception is not committed."""
        if kind is None or self.mode == "rb":
            self.close()
        else:
            self.discard()

    def commit(self) -> None:
        """Commits what was written to a file that was opened with `autocommit=False`, and closed."""
        self._check_process()
        if self._own is not None:
            own, self._own = self._own, None
            self._commit(own)

    def discard(self) -> None:
        """Forgets what was written. Of a file in a transaction of the file system that does its owner."""
        self.closed = True
        own, self._own = self._own, None
        if own is not None and not self._is_inherited():
            sync(self._fs_loop, finish, own, False)

    def _forget(self) -> None:
        """What was written, and what layers above still write when they are closed, goes nowhere."""
        self._is_forgotten = True

    def _forget_inherited(self) -> None:
        """As `_forget`, if it is for another process to have it written."""
        if self._is_inherited():
            self._forget()


class _Layer:
    """What text and compressed files that are written have in common: they are as whole as the file below them."""

    _file: TyrFile
    closed: Any
    close: Any

    def commit(self) -> None:
        """See `TyrFile.commit`."""
        self._file.commit()

    def discard(self) -> None:
        """See `TyrFile.discard`."""
        self._file._forget()
        with contextlib.suppress(Exception):
            self.close()
        self._file.discard()

    def __exit__(self, kind: Any, *error: Any) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()


class Text(_Layer, io.TextIOWrapper):
    """A file of text that is written."""

    def __init__(self, buffer: Any, file: TyrFile, **named: Any) -> None:
        self._file = file
        super().__init__(buffer, **named)
        # Of a file that cannot be sought in Python does not know that it is new, and leaves out the mark without which it cannot be read.
        is_new = file.mode != "ab" and not self.seekable()
        self._mark = _MARKS.get(codecs.lookup(self.encoding).name, b"") if is_new else b""

    def write(self, text: str) -> int:
        """Writes more text."""
        if self._mark:
            self.buffer.write(self._mark)
            self._mark = b""
        return super().write(text)

    def close(self) -> None:
        """Commits what was written."""
        self._file._forget_inherited()
        super().close()


_MARKS = {"utf-16": codecs.BOM_UTF16, "utf-32": codecs.BOM_UTF32}
"""What text begins with of which the order of bytes is the machine's."""


class Compressed(_Layer, io.BufferedIOBase):
    """A file that is written compressed."""

    def __init__(self, layer: Any, file: TyrFile) -> None:
        self._layer = layer
        self._file = file
        self._is_closed = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_layer"], name)

    @property
    def closed(self) -> bool:
        """Whether it is closed."""
        return self._is_closed

    def writable(self) -> bool:
        """Whether it can still be written to."""
        return not self._is_closed

    def seekable(self) -> bool:
        """As of what compresses."""
        return bool(self._layer.seekable())

    def seek(self, offset: int, whence: int = 0) -> int:
        """As of what compresses."""
        place: int = self._layer.seek(offset, whence)
        return place

    def tell(self) -> int:
        """Bytes that were written, before they were compressed."""
        place: int = self._layer.tell()
        return place

    def write(self, data: Any) -> int:
        """Writes more bytes."""
        written: int = self._layer.write(data)
        return written

    def flush(self) -> None:
        """As of what compresses."""
        if not self._is_closed:
            self._layer.flush()

    def close(self) -> None:
        """Commits what was written."""
        if self._is_closed:
            return
        self._is_closed = True
        self._file._forget_inherited()
        try:
            self._layer.close()
        except BaseException:
            self._file.discard()
            raise
        self._file.close()


def _is_left_by_exception(file: TyrFile) -> bool:
    """Whether an exception leaves the block of the `fsspec.OpenFile` that a file is of. That closes its files, and does not say why."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_code is OpenFile.__exit__.__code__:
            opened, error = (frame.f_locals.get(name) for name in ("self", "args"))
            if any(each is file for each in getattr(opened, "fobjects", ())):
                return error is not None and error[0] is not None
    return False
