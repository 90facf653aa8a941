"""Stores that parts of a program share, because a directory is opened once in a process."""

import os
import re
import threading
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from . import _tyr, errors
from ._tyr import Store

T = TypeVar("T")

_stores: dict[str, Store] = {}
_environment: dict[str, str] = {}
_lock = threading.Lock()


def absolute(place: str | os.PathLike[str]) -> str:
    """A place as it is named wherever the program goes from here."""
    place = os.fspath(place)
    # An empty name is no directory, and links are followed before "..".
    is_relative = isinstance(place, str) and place and not _SCHEME.match(place) and not os.path.isabs(place)
    return os.path.join(os.getcwd(), place) if is_relative else place


def name_of(place: str | os.PathLike[str]) -> str:
    """The one name of a place, by which its store is shared."""
    place = os.fspath(place)
    return place if _SCHEME.match(place) else os.path.realpath(place)


def was_dropped(error: errors.NotFound) -> bool:
    """Whether it is the keyspace of a handle that is not found. There may be another one of its name."""
    # A missing blob is not found, too; only the words tell which. They end otherwise, whatever the key is.
    return str(error).endswith("was dropped")


def shared(place: str | os.PathLike[str] | Store | None, options: dict[str, Any] | None = None) -> Store:
    """The open store at a place, which is opened if it is not. `None` is what the environment names as TYR_STORE."""
    if isinstance(place, Store):
        adopt(place)
        return place
    if place is None:
        place = os.environ.get("TYR_STORE")
        if not place:
            raise ValueError("no store is named; give one, or set TYR_STORE")
        # It names the same directory as before though the program is in another one by now.
        place = _environment.setdefault(place, name_of(place))
    name = name_of(place)
    with _lock:
        store = _stores.get(name)
        if store is None or store.closed:
            opened: Store = _tyr._open(name, **(options or {}))
            _stores[name] = store = opened
        return store


def adopt(store: Store) -> str:
    """Has others find a store that is open, unless another one of its place is, and tells by which name."""
    name = name_of(store.place or "")
    with _lock:
        known = _stores.get(name)
        if known is None or known.closed:
            _stores[name] = store
    return name


async def in_batches(many: list[T], most: int, work: Callable[[list[T]], Awaitable[None]]) -> None:
    """Does something with many, at most so many at once, each time in a transaction: with fewer once so many are refused as too much."""
    first, size = 0, most
    while first < len(many):
        some = many[first : first + size]
        try:
            await work(some)
        except errors.Invalid:
            if len(some) == 1:
                raise
            size = (len(some) + 1) // 2
            continue
        first += len(some)


def _forget() -> None:
    global _lock
    _lock = threading.Lock()
    _stores.clear()


_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
"""How names begin that are no directories."""

os.register_at_fork(after_in_child=_forget)
