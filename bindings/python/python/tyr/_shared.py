"""Stores that parts of a program share, because a directory is opened once in a process."""

import os
import threading
from typing import Any

from . import _tyr
from ._tyr import Store

_stores: dict[str, Store] = {}
_lock = threading.Lock()


def _name(place: str | os.PathLike[str]) -> str:
    place = os.fspath(place)
    return place if place.startswith(("tyr://", "tyr+tls://")) else os.path.realpath(place)


def shared(place: str | os.PathLike[str] | Store | None, options: dict[str, Any] | None = None) -> Store:
    """The open store at a place, which is opened if it is not. `None` is what the environment names as TYR_STORE."""
    if isinstance(place, Store):
        adopt(place)
        return place
    if place is None:
        place = os.environ.get("TYR_STORE")
        if not place:
            raise ValueError("no store is named; give one, or set TYR_STORE")
    name = _name(place)
    with _lock:
        store = _stores.get(name)
        if store is None or store.closed:
            opened: Store = _tyr._open(name, **(options or {}))
            _stores[name] = store = opened
        return store


def adopt(store: Store) -> str:
    """Has others find a store that is open, and tells by which name."""
    name = _name(store.place or "")
    with _lock:
        _stores[name] = store
    return name


def _forget() -> None:
    global _lock
    _lock = threading.Lock()
    _stores.clear()


os.register_at_fork(after_in_child=_forget)
