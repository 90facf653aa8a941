"""Transactions that are run until they commit, for callers that block."""

import functools
import inspect
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from ._scope import Scope
from ._tyr import Entry, Keyspace, Receipt, Snapshot, Store, Tries, Transaction
from .errors import Conflict

T = TypeVar("T")
P = ParamSpec("P")
F = TypeVar("F")


class KeyspaceTransaction(Scope):
    """A transaction whose operations are on one keyspace: those of `Transaction` without their first argument.

    >>> with events.transaction() as transaction:
    ...     transaction.put("a", b"one")
    ...     slot = transaction.append("log", b"a was put")
    >>> events.read("a"), transaction.receipt.offset(slot)
    (b'one', 0)
    """

    def __enter__(self) -> "KeyspaceTransaction":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.transaction.__exit__(kind, error, traceback)


class Attempt(Generic[F]):
    """One try of a transaction, for a with statement. A conflict ends it quietly, and the next try begins."""

    def __init__(self, tries: Tries, face: Callable[[Transaction], F]) -> None:
        self._tries = tries
        self._face = face
        self._transaction: Transaction | None = None
        self._is_last = False

    def __enter__(self) -> F:
        self._transaction = self._tries.begin()
        return self._face(self._transaction)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        assert self._transaction is not None
        if error is not None and not isinstance(error, Exception):
            self._is_last = True
            self._transaction.rollback()
            return False
        self._is_last = True  # unless it is known better
        self._is_last = self._tries.finish(self._transaction, failure_of(error))
        return not self._is_last

    @property
    def receipt(self) -> Receipt | None:
        """What the transaction resulted in, if it was committed."""
        return self._transaction.receipt if self._transaction else None


def failure_of(error: BaseException | None) -> str | None:
    """How the body of a try has failed."""
    if error is None:
        return None
    return "conflict" if isinstance(error, Conflict) else "other"


def left(attempt: Any) -> None:
    """A loop was left in this try, of either face. If that had met a conflict, nothing was committed, and nothing will be."""
    if attempt._transaction is not None and not attempt._is_last:
        raise Conflict(LEFT)


def _attempts(store: Store, face: Callable[[Transaction], F]) -> Iterator[Attempt[F]]:
    tries = store._tries()
    while True:
        attempt = Attempt(tries, face)
        try:
            yield attempt
        except GeneratorExit:
            left(attempt)
            raise
        if attempt._is_last or attempt._transaction is None:
            return


def retrying(store: Store) -> Iterator[Attempt[Transaction]]:
    return _attempts(store, lambda transaction: transaction)


def retrying_of(keyspace: Keyspace) -> Iterator[Attempt[KeyspaceTransaction]]:
    return _attempts(keyspace.store, lambda transaction: KeyspaceTransaction(transaction, keyspace))


def _run(attempts: Iterator[Attempt[F]], body: Callable[[F], T]) -> T:
    for attempt in attempts:
        with attempt as transaction:
            result = body(transaction)
            if inspect.iscoroutine(result):
                result.close()
                raise TypeError(ASYNC)
    return result


def run(store: Store, body: Callable[[Transaction], T]) -> T:
    return _run(retrying(store), body)


def run_of(keyspace: Keyspace, body: Callable[[KeyspaceTransaction], T]) -> T:
    return _run(retrying_of(keyspace), body)


def transactional(store: Store, body: Callable[Concatenate[Transaction, P], T]) -> Callable[P, T]:
    @functools.wraps(body)
    def repeated(*arguments: P.args, **named: P.kwargs) -> T:
        return run(store, lambda transaction: body(transaction, *arguments, **named))

    return repeated


def transaction_of(keyspace: Keyspace) -> KeyspaceTransaction:
    return KeyspaceTransaction(keyspace.store.begin(), keyspace)


def scan_all(keyspace: Keyspace, prefix: str | bytes | None, after: str | bytes | None) -> Iterator[Entry]:
    return _pages(lambda last: keyspace.scan(prefix or b"", last, PAGE), after)


def scan_all_of(
    snapshot: Snapshot, keyspace: Keyspace, prefix: str | bytes | None, after: str | bytes | None
) -> Iterator[Entry]:
    return _pages(lambda last: snapshot.scan(keyspace, prefix or b"", last, PAGE), after)


def _pages(scan: Callable[[Any], list[Entry]], last: Any) -> Iterator[Entry]:
    while True:
        page = scan(last)
        yield from page
        if len(page) < PAGE:
            return
        last = page[-1].key


PAGE = 1000
"""Blobs that are listed at once."""
LEFT = (
    "a loop of tries was left by return or break after a conflict, so nothing was committed; leave it by its end, or hand a function to run"
)
ASYNC = "a function that blocks is wanted, and this is a coroutine function; await the run of the store's or keyspace's aio"
"""What is said where nobody would notice."""
