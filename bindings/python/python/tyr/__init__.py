"""Týr, a transactional blob store: blobs of any size, whose ranges are read, written, appended to, and transformed in transactions.

A store is a directory, or a cluster named by a URL such as ``tyr://host:7700,other:7700``; `open` takes both.

>>> import tempfile, tyr
>>> with tempfile.TemporaryDirectory() as place, tyr.open(place, segment_size=1 << 20) as mine:
...     notes = mine.create_keyspace("notes")
...     notes.append("today", b"a first line")
...     notes.read("today")
0
b'a first line'

`tyr.aio` has the same for asyncio, `tyr.fs` a file system for fsspec, and `tyr.zarr` a store for zarr and xarray.
"""

import atexit as _atexit
import os as _os
from typing import Any as _Any

from . import _tyr
from ._run import Attempt, KeyspaceTransaction
from ._shared import absolute as _absolute
from ._shared import name_of as _name_of
from ._tyr import (
    Blob,
    Check,
    Content,
    Entry,
    Keyspace,
    KeyspaceSettings,
    KeyspaceSummary,
    Pending,
    Receipt,
    Slot,
    Snapshot,
    SnapshotSummary,
    Stat,
    Store,
    Transaction,
    Transform,
)
from .errors import (
    Conflict,
    Corrupt,
    Denied,
    Error,
    Exists,
    Expired,
    Full,
    Internal,
    Invalid,
    NotFound,
    Unavailable,
)

from . import aio  # isort: skip

__all__ = [
    "Attempt",
    "Blob",
    "Check",
    "Conflict",
    "Content",
    "Corrupt",
    "Denied",
    "Entry",
    "Error",
    "Exists",
    "Expired",
    "Full",
    "Internal",
    "Invalid",
    "Keyspace",
    "KeyspaceSettings",
    "KeyspaceSummary",
    "KeyspaceTransaction",
    "NotFound",
    "Pending",
    "Receipt",
    "Slot",
    "Snapshot",
    "SnapshotSummary",
    "Stat",
    "Store",
    "Transaction",
    "Transform",
    "Unavailable",
    "aio",
    "open",
]


def open(
    place: str | _os.PathLike[str],
    *,
    create: str | None = None,
    deadline: float | None = None,
    connect_timeout: float | None = None,
    zone: str | None = None,
    reads_files: bool | None = None,
    data_cache: int | None = None,
    index_cache: int | None = None,
    segment_size: int | None = None,
    io: str | None = None,
    rebuild_index: bool | None = None,
    authority: str | _os.PathLike[str] | None = None,
    certificate: str | _os.PathLike[str] | None = None,
    key: str | _os.PathLike[str] | None = None,
    token: str | None = None,
    token_file: str | _os.PathLike[str] | None = None,
) -> Store:
    """Opens the store in a directory, or connects to the cluster, that is named.

    `create` is ``if-missing``, ``never``, or ``new``; `deadline` and `connect_timeout` are seconds that a cluster is waited for, and
    `zone` says where this client is. The caches and segments of a directory are sized in bytes, and `io` is ``auto``,
    ``direct-ring``, ``direct``, or ``buffered``. `authority`, `certificate`, and `key` are files in PEM for ``tyr+tls://host:port``.
    `token`, or the file `token_file` with it, says who this client is; by default it is the one that ``TYR_TOKEN`` or ``TYR_TOKEN_FILE``
    has.

    Raises `Unavailable` if the directory is open elsewhere, or if no node of the cluster answers.
    """
    options: dict[str, _Any] = {name: value for name, value in locals().items() if name != "place"}
    store: Store = _tyr._open(_absolute(place), **options)
    return store


def _token(store: Store) -> tuple[str, str | None]:
    """What dask tells stores apart by: they cannot be pickled, but may be among the options by which it opens files."""
    return "tyr.Store", store.place and _name_of(store.place)


setattr(Store, "__dask_tokenize__", _token)
_os.register_at_fork(after_in_child=_tyr._forked)
_atexit.register(_tyr._end)
