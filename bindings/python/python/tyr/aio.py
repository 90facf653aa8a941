"""Týr for asyncio: the methods of `tyr`, to be awaited.

What a method returns is awaited like a coroutine: it does nothing before, and when its task is cancelled it happens as a whole or not
at all. What is in memory is there without a turn of the event loop.

>>> async def main():
...     async with await tyr.aio.open(directory) as store:
...         notes = await store.create_keyspace("notes")
...         offsets = await asyncio.gather(*[notes.append("log", b"line") for _ in range(3)])
...         return sorted(offsets)
>>> asyncio.run(main())
[0, 4, 8]
"""

import os as _os
from collections.abc import Coroutine as _Coroutine
from typing import Any as _Any

from . import _tyr
from ._run_aio import Attempt, KeyspaceTransaction
from ._shared import absolute as _absolute
from ._tyr import AioKeyspace as Keyspace
from ._tyr import AioPending as Pending
from ._tyr import AioSnapshot as Snapshot
from ._tyr import AioStore as Store
from ._tyr import AioTransaction as Transaction
from ._tyr import Operation

__all__ = ["Attempt", "Keyspace", "KeyspaceTransaction", "Operation", "Pending", "Snapshot", "Store", "Transaction", "open"]

_Coroutine.register(Operation)


async def open(place: str | _os.PathLike[str], **options: _Any) -> Store:
    """Opens the store in a directory, or connects to the cluster, that is named. The options are those of `tyr.open`."""
    store: Store = await _tyr._open_aio(_absolute(place), **options)
    return store
