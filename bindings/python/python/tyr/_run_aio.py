"""Transactions that are run until they commit, for asyncio."""

import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from ._run import PAGE, failure_of, left
from ._scope import AioScope
from ._tyr import AioKeyspace, AioSnapshot, AioStore, AioTransaction, AioTries, Entry, Receipt

T = TypeVar("T")
P = ParamSpec("P")
F = TypeVar("F")


class KeyspaceTransaction(AioScope):
    """A transaction whose operations are on one keyspace: those of `Transaction` without their first argument, to be awaited."""

    async def __aenter__(self) -> "KeyspaceTransaction":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.transaction.__aexit__(kind, error, traceback)


class Attempt(Generic[F]):
    """One try of a transaction, for an async with statement. A conflict ends it quietly, and the next try begins."""

    def __init__(self, tries: AioTries, face: Callable[[AioTransaction], F]) -> None:
        self._tries = tries
        self._face = face
        self._transaction: AioTransaction | None = None
        self._is_last = False

    async def __aenter__(self) -> F:
        self._transaction = await self._tries.begin()
        return self._face(self._transaction)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        assert self._transaction is not None
        self._is_last = True  # unless it is known better
        if error is not None and not isinstance(error, Exception):
            # Cancelled, or the end: nothing more is awaited than has to be.
            await self._transaction.rollback()
            return False
        self._is_last = await self._tries.finish(self._transaction, failure_of(error))
        return not self._is_last

    @property
    def receipt(self) -> Receipt | None:
        """What the transaction resulted in, if it was committed."""
        return self._transaction.receipt if self._transaction else None


async def _attempts(store: AioStore, face: Callable[[AioTransaction], F]) -> AsyncIterator[Attempt[F]]:
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


def retrying(store: AioStore) -> AsyncIterator[Attempt[AioTransaction]]:
    return _attempts(store, lambda transaction: transaction)


def retrying_of(keyspace: AioKeyspace) -> AsyncIterator[Attempt[KeyspaceTransaction]]:
    return _attempts(keyspace.store, lambda transaction: KeyspaceTransaction(transaction, keyspace))


async def _run(attempts: AsyncIterator[Attempt[F]], body: Callable[[F], Awaitable[T]]) -> T:
    async for attempt in attempts:
        async with attempt as transaction:
            result = await body(transaction)
    return result


async def run(store: AioStore, body: Callable[[AioTransaction], Awaitable[T]]) -> T:
    return await _run(retrying(store), body)


async def run_of(keyspace: AioKeyspace, body: Callable[[KeyspaceTransaction], Awaitable[T]]) -> T:
    return await _run(retrying_of(keyspace), body)


def transactional(
    store: AioStore, body: Callable[Concatenate[AioTransaction, P], Awaitable[T]]
) -> Callable[P, Awaitable[T]]:
    @functools.wraps(body)
    async def repeated(*arguments: P.args, **named: P.kwargs) -> T:
        return await run(store, lambda transaction: body(transaction, *arguments, **named))

    return repeated


def transaction_of(keyspace: AioKeyspace) -> KeyspaceTransaction:
    return KeyspaceTransaction(keyspace.store.begin(), keyspace)


def scan_all(
    keyspace: AioKeyspace, prefix: str | bytes | None, after: str | bytes | None
) -> AsyncIterator[Entry]:
    return _pages(lambda last: keyspace.scan(prefix or b"", last, PAGE), after)


def scan_all_of(
    snapshot: AioSnapshot, keyspace: AioKeyspace, prefix: str | bytes | None, after: str | bytes | None
) -> AsyncIterator[Entry]:
    return _pages(lambda last: snapshot.scan(keyspace, prefix or b"", last, PAGE), after)


async def _pages(scan: Callable[[Any], Awaitable[list[Entry]]], last: Any) -> AsyncIterator[Entry]:
    while True:
        page = await scan(last)
        for entry in page:
            yield entry
        if len(page) < PAGE:
            return
        last = page[-1].key
