"""A transaction seen from one keyspace. It is the same in both faces: an operation returns what the transaction returns. What that is in
either is in the stub beside this file.
"""

from typing import Any

from ._tyr import Check, Receipt, Transform


class Scope:
    """The operations of a transaction on one keyspace."""

    def __init__(self, transaction: Any, keyspace: Any) -> None:
        self.transaction = transaction
        """The transaction, for operations on other keyspaces."""
        self.keyspace = keyspace
        """The keyspace."""

    @property
    def receipt(self) -> Receipt | None:
        """What the transaction resulted in, once it is committed."""
        receipt: Receipt | None = self.transaction.receipt
        return receipt

    def read(self, key: Any, start: int = 0, end: int | None = None) -> Any:
        """See `Transaction.read`."""
        return self.transaction.read(self.keyspace, key, start, end)

    def read_view(self, key: Any, start: int = 0, end: int | None = None) -> Any:
        """See `Transaction.read_view`."""
        return self.transaction.read_view(self.keyspace, key, start, end)

    def read_into(self, key: Any, buffer: Any, offset: int = 0) -> Any:
        """See `Transaction.read_into`."""
        return self.transaction.read_into(self.keyspace, key, buffer, offset)

    def stat(self, key: Any) -> Any:
        """See `Transaction.stat`."""
        return self.transaction.stat(self.keyspace, key)

    def exists(self, key: Any) -> Any:
        """See `Transaction.exists`."""
        return self.transaction.exists(self.keyspace, key)

    def attribute(self, key: Any, name: str) -> Any:
        """See `Transaction.attribute`."""
        return self.transaction.attribute(self.keyspace, key, name)

    def check(self, key: Any, check: Check) -> Any:
        """See `Transaction.check`."""
        return self.transaction.check(self.keyspace, key, check)

    def create(self, key: Any) -> Any:
        """See `Transaction.create`."""
        return self.transaction.create(self.keyspace, key)

    def delete(self, key: Any) -> Any:
        """See `Transaction.delete`."""
        return self.transaction.delete(self.keyspace, key)

    def write(self, key: Any, offset: int, data: Any) -> Any:
        """See `Transaction.write`."""
        return self.transaction.write(self.keyspace, key, offset, data)

    def put(self, key: Any, data: Any) -> Any:
        """See `Transaction.put`."""
        return self.transaction.put(self.keyspace, key, data)

    def append(self, key: Any, data: Any) -> Any:
        """See `Transaction.append`."""
        return self.transaction.append(self.keyspace, key, data)

    def truncate(self, key: Any, size: int) -> Any:
        """See `Transaction.truncate`."""
        return self.transaction.truncate(self.keyspace, key, size)

    def punch(self, key: Any, start: int, end: int) -> Any:
        """See `Transaction.punch`."""
        return self.transaction.punch(self.keyspace, key, start, end)

    def set_attribute(self, key: Any, name: str, value: Any) -> Any:
        """See `Transaction.set_attribute`."""
        return self.transaction.set_attribute(self.keyspace, key, name, value)

    def transform(self, key: Any, offset: int, transform: Transform) -> Any:
        """See `Transaction.transform`."""
        return self.transaction.transform(self.keyspace, key, offset, transform)

    def rollback(self) -> Any:
        """See `Transaction.rollback`."""
        return self.transaction.rollback()

    def commit(self) -> Any:
        """See `Transaction.commit`."""
        return self.transaction.commit()


class AioScope(Scope):
    """The operations of a transaction of asyncio on one keyspace, to be awaited."""
