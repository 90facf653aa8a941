"""Runs a scenario of bindings/scenarios, in either face.

It is written once, as coroutines: what the blocking API returns is there at once, so that they never wait, and are driven by hand.
"""

import asyncio
import inspect
import shutil
import threading
from pathlib import Path

import tyr


class Place:
    """A directory for each scenario, or a cluster for all of them."""

    def __init__(self, directory: Path | None = None, servers=None) -> None:
        self.directory, self.servers = directory, servers

    def named(self, name: str | None) -> str:
        if name and name.startswith(("/", "tyr")):
            return name
        if self.servers:
            return self.servers.url
        return str(self.directory / (name or "store"))

    def replace(self, find: bytes, with_: bytes) -> None:
        assert len(find) == len(with_)
        found = 0
        for path in (self.directory / "store").rglob("*"):
            if path.is_file():
                content = path.read_bytes()
                found += content.count(find)
                path.write_bytes(content.replace(find, with_))
        assert found


class Stage:
    """What steps work with, by the name of the handle."""

    def __init__(self, face: str, place: Place, kept=None, worker: int = 0) -> None:
        self.face, self.place, self.worker = face, place, worker
        self.kept = {} if kept is None else kept
        self.handles, self.slots = {}, {}
        self.attempt = 0

    async def done(self, result):
        return await result if inspect.isawaitable(result) else result

    async def expect(self, step) -> None:
        if step.get("try", self.attempt) != self.attempt:
            return
        match step["do"]:
            case "together":
                await self.together(step)
            case "cancel":
                await self.cancel(step["step"])
            case "forget":
                self.handles, self.slots = {}, {}
            case "server.kill":
                self.place.servers.kill(step["node"] - 1)
            case "server.start":
                self.place.servers.start(step["node"] - 1)
            case "directory.replace":
                self.place.replace(step["find"].encode(), step["with"].encode())
            case _ if "fails" in step:
                await self.fail(step)
            case _:
                await self.succeed(step)

    async def fail(self, step) -> None:
        while True:
            try:
                told = await self.perform(step)
            except tyr.Error as error:
                assert error.kind == step["fails"], f"{step}: {error}"
                return
            assert "gives" in step and self.fits(told, step["gives"]), f"{step} succeeds: {told!r}"

    async def succeed(self, step) -> None:
        try:
            told = await self.perform(step)
        except tyr.Error as error:
            if "passes" in step:
                raise
            raise AssertionError(f"{step} fails: {error} ({error.kind})") from error
        if "gives" in step:
            assert self.fits(told, step["gives"]), f"{step} is told {told!r}"
        if "keep" in step:
            self.kept[step["keep"]] = told["version"] if isinstance(told, dict) else told

    async def cancel(self, step) -> None:
        if self.face == "blocking":
            try:
                await self.perform(step)
            except tyr.Error:
                pass
            return
        task = asyncio.ensure_future(self.perform(step))
        await asyncio.sleep(0)
        task.cancel()
        try:
            await task
        except (tyr.Error, asyncio.CancelledError):
            pass

    async def together(self, step) -> None:
        async def work(stage: Stage) -> None:
            for _ in range(step["times"]):
                for each in step["steps"]:
                    await stage.expect(each)

        stages = [self.shared(worker) for worker in range(step["count"])]
        if self.face == "aio":
            tasks = [asyncio.create_task(work(stage)) for stage in stages]
            await asyncio.sleep(0)
            for each in step.get("meanwhile", []):
                await self.expect(each)
            await asyncio.gather(*tasks)
            return
        failures = []

        def run(stage: Stage) -> None:
            try:
                drive(work(stage))
            except BaseException as failure:
                failures.append(failure)

        threads = [threading.Thread(target=run, args=(stage,)) for stage in stages]
        for thread in threads:
            thread.start()
        for each in step.get("meanwhile", []):
            await self.expect(each)
        for thread in threads:
            thread.join()
        assert not failures, failures

    def shared(self, worker: int) -> "Stage":
        stage = Stage(self.face, self.place, dict(self.kept), worker)
        stage.handles = dict(self.handles)
        return stage

    # Steps that are operations.

    async def perform(self, step):
        noun, method = step["do"].split(".")
        default = {"store": "store", "keyspace": "files", "transaction": "t", "snapshot": "s", "pending": "p"}[noun]
        own = step.get("on", default)
        if (noun, method) == ("store", "open"):
            return await self.open(step)
        handle = self.handles[own]
        if noun in ("transaction", "snapshot"):
            return await getattr(self, f"of_{noun}")(step, method, own, handle)
        if noun == "pending":
            return await self.outcome(handle.outcome)
        return await getattr(self, f"of_{noun}")(step, method, handle)

    async def open(self, step):
        options = {"segment_size": 1 << 20, "create": step.get("create")}
        for name in ("deadline", "connect_timeout"):
            if f"{name}_ms" in step:
                options[name] = step[f"{name}_ms"] / 1000
        opened = (tyr.open if self.face == "blocking" else tyr.aio.open)(self.place.named(step.get("place")), **options)
        self.handles[step.get("as", "store")] = await self.done(opened)

    async def of_store(self, step, method, store):
        match method:
            case "create_keyspace":
                made = store.create_keyspace(step["name"], **step.get("settings", {}))
                self.handles[step.get("as", "files")] = await self.done(made)
            case "alter_keyspace":
                await self.done(store.alter_keyspace(step["name"], **step["settings"]))
            case "keyspace":
                self.handles[step.get("as", "files")] = await self.done(store.keyspace(step["name"]))
            case "drop_keyspace":
                await self.done(store.drop_keyspace(step["name"]))
            case "keyspaces":
                return [each.name for each in await self.done(store.keyspaces())]
            case "begin":
                self.handles[step.get("as", "t")] = store.begin()
            case "within":
                self.handles[step.get("as", "store")] = store.within(step["deadline_ms"] / 1000)
            case "snapshot":
                of = [self.handles[name] for name in step["of"]]
                self.handles[step.get("as", "s")] = await self.done(store.snapshot(*of))
            case "create_snapshot" | "drop_snapshot":
                await self.done(getattr(store, method)(self.handles[step["of"]], step["name"]))
            case "open_snapshot":
                opened = store.open_snapshot(self.handles[step["of"]], step["name"])
                self.handles[step.get("as", "s")] = await self.done(opened)
            case "snapshots":
                return [each.name for each in await self.done(store.snapshots(self.handles[step["of"]]))]
            case "run":
                return await self.run(step, store)
            case "check":
                return {"damage": len((await self.done(store.check()))["damage"])}
            case _:
                return await self.done(getattr(store, method)())

    async def run(self, step, store):
        self.attempt, transactions = 0, []

        async def body(transaction):
            self.attempt += 1
            transactions.append(transaction)
            self.handles["t"] = transaction
            for each in step["steps"]:
                await self.expect(each)

        if self.face == "blocking":
            store.run(lambda transaction: drive(body(transaction)))
        else:
            await store.run(body)
        assert step.get("tries", self.attempt) == self.attempt, step
        self.attempt = 0
        return self.committed(transactions[-1].receipt)

    async def of_keyspace(self, step, method, keyspace):
        match method:
            case "settings":
                settings = keyspace.settings
                return {name: getattr(settings, name) for name in ("durability", "chunk_size", "multi_version", "quota")}
            case "within":
                self.handles[step.get("as", "files")] = keyspace.within(step["deadline_ms"] / 1000)
                return None
            case "stats":
                stats = await self.done(keyspace.stats([self.bytes(key) for key in step["keys"]]))
                return [stat and fields(stat) for stat in stats]
        return await self.of_blobs(step, method, keyspace, ())

    async def of_blobs(self, step, method, handle, where):
        """What keyspaces, transactions, and snapshots have in common."""

        async def call(*arguments):
            return await self.done(getattr(handle, method)(*where, *arguments))

        if method == "scan":
            prefix = self.bytes(step.get("prefix", ""))
            after = self.bytes(step["after"]) if step.get("after") is not None else None
            entries = await call(prefix, after, step.get("limit", 1000))
            return [{"key": entry.key, "size": entry.size} for entry in entries]
        key = self.key(step)
        match method:
            case "read":
                start, end = step.get("range", [0, None])
                return await call(key, start, end)
            case "read_into":
                buffer = bytearray(step["size"])
                read = await call(key, buffer, step["offset"])
                return bytes(buffer[:read])
            case "write":
                return await call(key, step["offset"], self.bytes(step["bytes"]))
            case "put" | "append":
                return await call(key, self.bytes(step["bytes"]))
            case "truncate":
                return await call(key, step["size"])
            case "punch":
                return await call(key, *step["range"])
            case "seek_data" | "seek_hole":
                return await call(key, step["from"])
            case "attribute":
                return await call(key, step["name"])
            case "set_attribute":
                value = step.get("value")
                return await call(key, step["name"], None if value is None else self.bytes(value))
            case "transform":
                (kind, operand), = step["operand"].items()
                old = await call(key, step["offset"], self.transform(step, operand, kind))
                return old if where else {kind: old}
            case "stat":
                return fields(await call(key))
            case "get":
                blob = await call(key)
                return {**fields(blob.stat), "bytes": blob.bytes}
            case "check":
                return await call(key, self.check(step["check"]))
            case _:
                return await call(key)

    def transform(self, step, operand, kind):
        if step["op"] == "compare-and-swap":
            (expected_kind, expected), = step["expected"].items()
            if expected_kind != kind:
                # Of two types: what Python cannot even say is refused by its numbers.
                raise tyr.Invalid("compare-and-swap is of one type")
            return tyr.Transform.compare_and_swap(expected, operand, kind)
        name = step["op"] + "_" if step["op"] in ("and", "or") else step["op"]
        return getattr(tyr.Transform, name)(operand, kind)

    def check(self, check):
        match check:
            case {"exists": exists}:
                return tyr.Check.exists() if exists else tyr.Check.missing()
            case {"version": version}:
                return tyr.Check.version(self.kept[version["kept"]] if isinstance(version, dict) else version)
            case {"size": size}:
                return tyr.Check.size(size)
            case {"attribute": name, "value": value}:
                return tyr.Check.attribute(name, None if value is None else self.bytes(value))
            case {"offset": offset, "bytes": content}:
                return tyr.Check.bytes(offset, self.bytes(content))
        raise AssertionError(check)

    async def of_transaction(self, step, method, own, transaction):
        match method:
            case "commit":
                return await self.outcome(transaction.commit)
            case "rollback":
                return await self.done(transaction.rollback())
            case "pending":
                self.handles[step.get("as", "p")] = transaction.pending()
                return None
        told = await self.of_blobs(step, method, transaction, (self.handles[step.get("in", "files")],))
        if method in ("append", "transform"):
            if "slot" in step:
                self.slots[step["slot"]] = told
            return None
        return told

    async def of_snapshot(self, step, method, own, snapshot):
        if method == "drop":
            self.handles.pop(own).close()
            return None
        return await self.of_blobs(step, method, snapshot, (self.handles[step.get("in", "files")],))

    async def outcome(self, ending):
        try:
            return self.committed(await self.done(ending()))
        except tyr.Conflict:
            return "conflict"

    def committed(self, receipt):
        told = {}
        for name, slot in self.slots.items():
            try:
                told[name] = receipt.offset(slot)
            except tyr.Invalid:
                try:
                    told[name] = receipt.old(slot)
                except tyr.Invalid:
                    pass
        return {"committed": told}

    # Values.

    def key(self, step) -> bytes:
        key = step["key"]
        return key.replace("{worker}", str(self.worker)).encode() if isinstance(key, str) else self.bytes(key)

    def bytes(self, value) -> bytes:
        match value:
            case str():
                return value.encode()
            case {"hex": digits}:
                return bytes.fromhex(digits)
            case {"repeat": text, "times": times}:
                return text.encode() * times
            case {"kept": name}:
                return self.kept[name]
        raise AssertionError(value)

    def fits(self, told, wanted) -> bool:
        if isinstance(wanted, dict) and "kept" in wanted:
            return told == self.kept[wanted["kept"]]
        match told, wanted:
            case bytes(), _:
                return told == self.bytes(wanted)
            case {"committed": _}, "committed":
                return True
            case {"committed": slots}, {"committed": named}:
                return all(name in slots and self.fits(slots[name], value) for name, value in named.items())
            case (int() | float()), {**typed} if len(typed) == 1:
                return told == next(iter(typed.values()))
            case dict(), dict():
                return all(name in told and self.fits(told[name], value) for name, value in wanted.items())
            case list(), list():
                return len(told) == len(wanted) and all(map(self.fits, told, wanted))
        return told == wanted and type(told) is type(wanted)


def fields(stat) -> dict:
    attributes = Exactly(stat.attributes)
    return {"size": stat.size, "attributes": attributes, "version": stat.version}


class Exactly(dict):
    """Attributes: those that are named, and no others."""

    def __eq__(self, other) -> bool:
        return dict.__eq__(self, {name: value.encode() for name, value in other.items()})

    __hash__ = None


def drive(coroutine):
    """Runs a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as ended:
        return ended.value
    raise AssertionError("what blocks does not wait")


async def play(face: str, scenario, place: Place) -> None:
    stage = Stage(face, place)
    opened = {"do": "store.open"}
    made = {"do": "store.create_keyspace", "name": "files", "settings": {"chunk_size": 65536}}
    for step in [opened, made, *scenario["steps"]]:
        await stage.expect(step)
    for name, handle in stage.handles.items():
        if isinstance(handle, (tyr.Store, tyr.aio.Store)) and not handle.closed and name != "hasty":
            await stage.done(handle.close())


def run(face: str, scenario, place: Place) -> None:
    if face == "blocking":
        drive(play(face, scenario, place))
    else:
        asyncio.run(play(face, scenario, place))
    if place.servers:
        place.servers.clear()
    else:
        shutil.rmtree(place.directory)
