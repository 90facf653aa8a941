"""What can go wrong, by what the caller should do about it.

>>> import tyr
>>> try:
...     events.read("nothing")
... except tyr.NotFound as error:
...     print(error.kind)
not-found
"""


class Error(Exception):
    """A failure of a store: its kind says what to do, its text what was wrong."""

    kind: str = "internal"
    """The stable name of the kind, the same in every language."""


class Conflict(Error):
    """Another transaction changed what this one read: run it again."""

    kind = "conflict"


class Unavailable(Error):
    """Cannot be served now, for instance because the store is closed or in use: retry later or reopen."""

    kind = "unavailable"


class NotFound(Error, LookupError):
    """The blob, keyspace, or attribute does not exist."""

    kind = "not-found"


class Exists(Error):
    """The blob or keyspace exists already."""

    kind = "exists"


class Invalid(Error, ValueError):
    """The call itself is wrong: fix it."""

    kind = "invalid"


class Denied(Error):
    """The caller may not do this."""

    kind = "denied"


class Full(Error):
    """No space is left on the device or in the quota: free some, then retry. Reads go on."""

    kind = "full"


class Expired(Error):
    """The version that was asked for was collected because its reader did not renew it in time."""

    kind = "expired"


class Corrupt(Error):
    """Bytes on disk or on the wire are not what was written: stop, then repair or restore."""

    kind = "corrupt"


class Internal(Error):
    """A defect of Týr itself: report it."""

    kind = "internal"


BY_KIND: dict[str, type[Error]] = {
    each.kind: each
    for each in (Conflict, Unavailable, NotFound, Exists, Invalid, Denied, Full, Expired, Corrupt, Internal)
}
"""The classes by the names of their kinds."""
