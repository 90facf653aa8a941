"""Measures file systems beside one another, in one run: the local one, it through FUSE (bindfs), GlusterFS, and TýrFS.

Each round goes through all of them in turn; what is printed are medians over the rounds. Loads are made by as many processes as is said, with
plain system calls from Python, which cost 1 to 3 us each; bandwidth is in blocks of 1 MiB. What was written is in the caches of servers
when it is read; the kernel's caches of clients are emptied, by mounting anew where that asks servers again.
"""

import argparse
import contextlib
import json
import mmap
import multiprocessing
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from fs_cluster import Nodes
from fs_test import may_mount

MIB = 1 << 20


def run(*command, **named):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True, **named).stdout


def unmount(directory):
    """Until nothing is mounted there: a mount that is still closing files is busy for a moment."""
    for _ in range(200):
        if not os.path.ismount(directory):
            return
        if subprocess.run(["umount", directory], capture_output=True, check=False).returncode:
            time.sleep(0.05)
    run("umount", "-l", directory)


class Local:
    """A directory of the local file system: the limit."""

    name = "local"

    def __init__(self, work):
        self.root = work / "local"
        self.root.mkdir()

    def remount(self):
        pass

    def stop(self):
        pass


class Bindfs:
    """The same through FUSE, by a program that passes everything on: what FUSE costs."""

    name = "bindfs"

    def __init__(self, work):
        self.source, self.root = work / "bindfs-source", work / "bindfs"
        self.source.mkdir()
        self.root.mkdir()
        self.mount()

    def mount(self):
        run("bindfs", "-o", "fsname=bindfs", self.source, self.root)

    def remount(self):
        unmount(self.root)
        self.mount()

    def stop(self):
        unmount(self.root)


class Gluster:
    """GlusterFS with three copies, each in a process of its own."""

    name = "glusterfs-3"
    # It takes no address of loopback's own network.
    address = "10.77.77.1"

    def __init__(self, work):
        self.work, self.root = work / "gluster", work / "glusterfs"
        self.root.mkdir()
        (self.work / "state").mkdir(parents=True)
        run("ip", "address", "replace", f"{self.address}/32", "dev", "lo")
        volume = ["volume management", "type mgmt/glusterd", f"option working-directory {self.work}/state", "option transport-type socket"]
        volume += [f"option transport.socket.bind-address {self.address}", "end-volume"]
        (self.work / "glusterd.vol").write_text("\n".join(volume) + "\n")
        self.daemon = subprocess.Popen(["glusterd", "-N", "-f", self.work / "glusterd.vol", "-l", self.work / "log", "-L", "ERROR"])
        bricks = []
        for number in range(3):
            (self.work / f"brick-{number}").mkdir()
            bricks.append(f"{self.address}:{self.work}/brick-{number}")
        self.volume = f"bench{os.getpid()}"
        self.order("volume", "create", self.volume, "replica", "3", *bricks, "force")
        self.order("volume", "start", self.volume)
        self.mount()

    def order(self, *words):
        """Until the daemon listens, and has the lock of its own last order back."""
        for _ in range(100):
            ended = subprocess.run(["gluster", "--mode=script", *words], capture_output=True, text=True, check=False)
            if ended.returncode == 0:
                return ended.stdout
            time.sleep(0.2)
        raise SystemExit(f"gluster {words}: {ended.stdout}{ended.stderr}")

    def mount(self):
        run("glusterfs", "-s", self.address, f"--volfile-id={self.volume}", "-l", self.work / "mount.log", self.root)
        while not os.path.ismount(self.root):
            time.sleep(0.05)

    def remount(self):
        unmount(self.root)
        self.mount()

    def stop(self):
        unmount(self.root)
        self.order("volume", "stop", self.volume, "force")
        self.order("volume", "delete", self.volume)
        self.daemon.terminate()
        self.daemon.wait()
        run("ip", "address", "del", f"{self.address}/32", "dev", "lo")


class Tyr:
    """TýrFS in a directory."""

    name = "tyr-directory"

    def __init__(self, work, tyr, flags):
        self.tyr, self.flags, self.root = tyr, flags, work / self.name
        self.root.mkdir()
        self.store = self.start(work / f"{self.name}-store")
        self.mount("--create")

    def start(self, place):
        return str(place)

    def mount(self, *more):
        command = [self.tyr, "--store", self.store, "mount", "files", str(self.root), *more, *self.flags]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline().startswith("mounted "), command

    def remount(self):
        """The store's own cache is that of this process: it stays, as the local file system's does, and the kernel's pages go."""
        for directory, _, files in os.walk(self.root):
            for name in files:
                file = os.open(Path(directory, name), os.O_RDONLY)
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
                os.close(file)

    def unmount(self):
        unmount(self.root)
        self.process.communicate(timeout=60)

    def stop(self):
        self.unmount()


class TyrCluster(Tyr):
    """TýrFS on a cluster of three nodes with three copies, each node a process of its own."""

    name = "tyr-cluster-3"
    link = None
    node_flags = ()

    def start(self, place):
        self.place = place
        self.nodes = Nodes(self.tyr, place, self.link, self.node_flags)
        return self.nodes.url

    def remount(self):
        self.unmount()
        self.mount()

    def stop(self):
        super().stop()
        self.nodes.stop()


class TyrClusterCaching(TyrCluster):
    """The same with what is known of files up to a second out of date, as GlusterFS and bindfs have it."""

    name = "tyr-cluster-3-1s"


class TyrClusterNames(TyrCluster):
    """The same whose kernel keeps names as long as nobody changes anything, and is never out of date."""

    name = "tyr-cluster-3-names"


def together(processes, work, *arguments):
    """Seconds that so many processes take that begin at once, each for its share."""
    barrier = multiprocessing.Barrier(processes + 1)

    def go(number):
        barrier.wait()
        try:
            work(number, *arguments)
        except OSError as error:
            print(f"{work.__name__}: {error}", file=sys.stderr)
            os._exit(1)
        os._exit(0)

    children = [multiprocessing.Process(target=go, args=(number,)) for number in range(processes)]
    for child in children:
        child.start()
    barrier.wait()
    began = time.monotonic()
    for child in children:
        child.join()
    took = time.monotonic() - began
    if any(child.exitcode for child in children):
        raise SystemExit(f"{work.__name__} has failed")
    return took


def buffer():
    """Room for 1 MiB that begins with a page, as programs that move much have it."""
    return memoryview(mmap.mmap(-1, MIB))


def filled():
    block = buffer()
    block[:] = random.Random(1).randbytes(MIB)
    return block


def pieces(size):
    return [min(MIB, size - at) for at in range(0, size, MIB)]


def write_files(number, directory, count, size, processes):
    block = filled()
    for place in range(number, count, processes):
        file = os.open(directory / f"f{place:06}", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        for length in pieces(size):
            os.write(file, block[:length])
        os.close(file)


def read_files(number, directory, count, size, processes):
    block = buffer()
    for place in range(number, count, processes):
        file = os.open(directory / f"f{place:06}", os.O_RDONLY)
        left = size
        while left:
            read = os.readv(file, [block[: min(MIB, left)]])
            if not read:
                raise OSError(f"a file has {left} bytes too few")
            left -= read
        os.close(file)


def make_names(number, directory, count):
    (directory / str(number)).mkdir()
    for place in range(count):
        os.close(os.open(directory / str(number) / f"n{place:06}", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))


def make_names_durably(number, directory, count):
    """What is durable without it takes no time for it."""
    (directory / str(number)).mkdir()
    parent = os.open(directory / str(number), os.O_RDONLY | os.O_DIRECTORY)
    for place in range(count):
        file = os.open(f"n{place:06}", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644, dir_fd=parent)
        os.fsync(file)
        os.close(file)
        os.fsync(parent)
    os.close(parent)


def stat_names(number, directory, count):
    for place in range(count):
        os.stat(directory / str(number) / f"n{place:06}")


def open_names(number, directory, count):
    for place in range(count):
        file = os.open(directory / str(number) / f"n{place:06}", os.O_RDONLY)
        os.read(file, 4096)
        os.close(file)


def list_names(number, directory, count):
    with os.scandir(directory / str(number)) as entries:
        if sum(1 for entry in entries if entry.stat()) != count:
            raise OSError("entries are missing")


def remove_names(number, directory, count):
    for place in range(count):
        os.unlink(directory / str(number) / f"n{place:06}")


def append_records(number, path, count, flags):
    file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND | flags)
    record = f"{number:1023}\n".encode()
    for _ in range(count):
        os.write(file, record)
    os.close(file)


def rename_tree(_number, directory, count):
    for turn in range(count):
        os.rename(directory / f"tree-{turn}", directory / f"tree-{turn + 1}")


def sequential_read(_number, path):
    block = buffer()
    file = os.open(path, os.O_RDONLY)
    while os.readv(file, [block]):
        pass
    os.close(file)


def random_reads(number, path, count, size):
    generator = random.Random(number)
    file = os.open(path, os.O_RDONLY)
    for _ in range(count):
        os.pread(file, 4096, generator.randrange(size // 4096) * 4096)
    os.close(file)


def random_writes(number, path, count, size, flags):
    generator = random.Random(number)
    file = os.open(path, os.O_WRONLY | flags)
    block = filled()[:4096]
    for _ in range(count):
        os.pwrite(file, block, generator.randrange(size // 4096) * 4096)
    os.fsync(file)
    os.close(file)


# What files are opened with, by what a row says of it.
SYNCHRONY = {"": 0, " with O_DSYNC": os.O_DSYNC}


def measure(system, options, turn):
    """One round of one system: names of what is measured, each with its unit, and the value."""
    told = {}
    directory = system.root / f"round-{turn}"
    directory.mkdir()
    for size in options.sizes:
        count = max(options.data * MIB // size, 1)
        place = directory / f"data-{size}"
        place.mkdir()
        megabytes = count * size / MIB
        seconds = together(options.processes, write_files, place, count, size, options.processes)
        told[f"write files of {size >> 10} KiB, MiB/s"] = megabytes / seconds
        system.remount()
        seconds = together(options.processes, read_files, place, count, size, options.processes)
        told[f"read files of {size >> 10} KiB, MiB/s"] = megabytes / seconds
    names = directory / "names"
    names.mkdir()
    every = options.names * options.processes
    told["create, 1/s"] = every / together(options.processes, make_names, names, options.names)
    system.remount()
    told["stat, 1/s"] = every / together(options.processes, stat_names, names, options.names)
    system.remount()
    told["open-read-close, 1/s"] = every / together(options.processes, open_names, names, options.names)
    system.remount()
    told["list with stat, entries/s"] = every / together(options.processes, list_names, names, options.names)
    durable = directory / "durable"
    durable.mkdir()
    told["create with fsync, 1/s"] = every / together(options.processes, make_names_durably, durable, options.names)
    told["remove, 1/s"] = every / together(options.processes, remove_names, names, options.names)
    make_names(0, directory, 0)
    tree = directory / "tree-0"
    tree.mkdir()
    for number in range(5):
        (tree / f"below-{number}").mkdir()
        for place in range(20):
            (tree / f"below-{number}" / f"f{place}").touch()
    told["rename a tree, ms"] = together(1, rename_tree, directory, 50) / 50 * 1000
    for durably, flags in SYNCHRONY.items():
        log = directory / f"log{flags}"
        seconds = together(4, append_records, log, options.appends, flags)
        told[f"append 1 KiB{durably}, 1/s"] = 4 * options.appends / seconds
        whole = log.stat().st_size
        assert whole == 4 * options.appends * 1024, f"{system.name}: {whole} bytes were appended"
    size, block = options.big * MIB, filled()
    path = directory / "big"
    began = time.monotonic()
    file = os.open(path, os.O_CREAT | os.O_WRONLY)
    for length in pieces(size):
        os.write(file, block[:length])
    os.fsync(file)
    os.close(file)
    told["write one big file, MiB/s"] = options.big / (time.monotonic() - began)
    system.remount()
    told["read one big file, MiB/s"] = options.big / together(1, sequential_read, path)
    system.remount()
    told["random reads of 4 KiB, 1/s"] = options.random * 2 / together(2, random_reads, path, options.random, size)
    for durably, flags in SYNCHRONY.items():
        seconds = together(2, random_writes, path, options.random, size, flags)
        told[f"random writes of 4 KiB{durably}, 1/s"] = options.random * 2 / seconds
    system.remount()
    return told


def fetch(options, system, turn):
    """The same files through the native API, over the network: the nodes' directories, by which it reads files itself on one host, are hidden from it."""
    told = {}
    for size in options.sizes:
        hide = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"', system.place]
        said = run(*hide, options.fetch, system.store, "files", f"/round-{turn}/data-{size}", options.fetchers, 3)
        said = json.loads(said)
        told[f"read files of {size >> 10} KiB, MiB/s"] = said["bytes"] / MIB / statistics.median(said["seconds"])
    return told


def fetch_far(options, work, cached_heads):
    """What the native API reads over a network with a delay: the same for every size of files, were there nothing but bytes. Nodes keep copies
    of so many popular directories' heads."""

    class Far(TyrCluster):
        name = f"tyr-far-{cached_heads}"
        link = (options.slow_link, str(options.delay))
        node_flags = ("--cached-heads", str(cached_heads))

    system = Far(work, options.tyr, [])
    try:
        directory = system.root / "round-0"
        directory.mkdir()
        for size in options.sizes:
            (directory / f"data-{size}").mkdir()
            count = max(options.data * MIB // size, 1)
            together(options.processes, write_files, directory / f"data-{size}", count, size, options.processes)
        return [fetch(options, system, 0) for _ in range(options.rounds)]
    finally:
        system.stop()


def table(results):
    names = list(results)
    rows = list(dict.fromkeys(row for told in results.values() for row in told))
    yield "| | " + " | ".join(names) + " |"
    yield "|---|" + "---|" * len(names)
    for row in rows:
        cells = [results[name].get(row) for name in names]
        yield f"| {row} | " + " | ".join("" if cell is None else f"{cell:.3g}" if cell < 100 else f"{cell:,.0f}".replace(",", " ") for cell in cells) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tyr", required=True, help="the command")
    parser.add_argument("--fetch", help="the example of crates/fs that measures the native API")
    parser.add_argument("--slow-link", help="the example of crates/fs that delays what passes it")
    parser.add_argument("--delay", type=int, default=100, help="microseconds by which it does, in each direction")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--systems", default="local,bindfs,glusterfs-3,tyr-directory,tyr-cluster-3,tyr-cluster-3-1s", help="which, with commas between them")
    parser.add_argument("--processes", type=int, default=2, help="that read and write files at once")
    parser.add_argument("--fetchers", type=int, default=8, help="threads that fetch at once through the native API")
    parser.add_argument("--data", type=int, default=128, help="MiB of the data set that is cut into files")
    parser.add_argument("--big", type=int, default=256, help="MiB of the one big file")
    parser.add_argument("--names", type=int, default=500, help="that each process creates")
    parser.add_argument("--appends", type=int, default=250, help="by each of four processes")
    parser.add_argument("--random", type=int, default=1000, help="reads, and writes, at random, by each of two processes")
    parser.add_argument("--directory", help="where everything lies meanwhile")
    parser.add_argument("--json", metavar="FILE", help="where all figures go")
    options = parser.parse_args()
    options.sizes = [32 << 20, 1 << 20, 32 << 10]
    if reason := may_mount():
        print(f"nothing is mounted, so nothing is measured: {reason}")
        return
    work = Path(tempfile.mkdtemp(prefix="tyr-fs-bench-", dir=options.directory))
    makers = {
        "local": Local,
        "bindfs": Bindfs,
        "glusterfs-3": Gluster,
        "tyr-directory": lambda place: Tyr(place, options.tyr, []),
        "tyr-cluster-3": lambda place: TyrCluster(place, options.tyr, []),
        "tyr-cluster-3-1s": lambda place: TyrClusterCaching(place, options.tyr, ["--attr-cache", "1", "--entry-cache", "1"]),
        "tyr-cluster-3-names": lambda place: TyrClusterNames(place, options.tyr, ["--keep-names"]),
    }
    print(" ".join(f"{name}={value}" for name, value in vars(options).items()), f"processors={os.cpu_count()} kernel={os.uname().release}")
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, work, ignore_errors=True)
        systems = []
        for name in options.systems.split(","):
            system = makers[name](work)
            stack.callback(system.stop)
            systems.append(system)
        rounds = {}
        for turn in range(options.rounds):
            for system in systems:
                began = time.monotonic()
                rounds.setdefault(system.name, []).append(measure(system, options, turn))
                if options.fetch and type(system) is TyrCluster:
                    rounds.setdefault("tyr-native", []).append(fetch(options, system, turn))
                print(f"round {turn + 1}, {system.name}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
                shutil.rmtree(system.root / f"round-{turn}")
        if options.slow_link and options.fetch:
            away = f"tyr-native, {options.delay} us away"
            rounds[away] = fetch_far(options, work, 1024)
            rounds[f"{away}, no copies of heads"] = fetch_far(options, work, 0)
    results = {name: {row: statistics.median(told[row] for told in all) for row in all[0]} for name, all in rounds.items()}
    if options.json:
        Path(options.json).write_text(json.dumps({"options": vars(options), "rounds": rounds, "medians": results}, indent=1))
    print("\n".join(table(results)))


if __name__ == "__main__":
    main()
