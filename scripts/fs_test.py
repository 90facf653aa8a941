"""Mounts a file system in a directory and of a cluster, and checks what programs see of it, beside the local file system."""

import argparse
import ctypes
import errno
import fcntl
import hashlib
import json
import mmap
import os
import random
import re
import select
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from fs_away import ends_programs
from fs_between import (
    appends_as_told,
    gives_nobody_more,
    gives_up_what_was_waited_for,
    lists_what_stays,
    reads_what_was_written,
    shows_who_may_see,
)
from fs_cluster import Nodes
from fs_flat import flat_mounts_are_right
from fs_lists import named, obeys_lists
from fs_locks import locks_files, tells_deadlocks, waits_are_interrupted
from fs_mount import Mount
from fs_moves import keys_below, moves_to_names
from fs_programs import PROGRAMS
from fs_refusal import refuses


def random_bytes(here, local, seed, steps):
    """Random reads, writes, appends, truncations, holes, and mapped pages of one file, beside a local one."""
    generator = random.Random(seed)
    names = [here / f"random-{seed}", local / f"random-{seed}"]
    files = [os.open(name, os.O_RDWR | os.O_CREAT, 0o644) for name in names]
    appending = [os.open(name, os.O_WRONLY | os.O_APPEND) for name in names]
    for step in range(steps):
        what, offset, length = generator.randrange(10), generator.randrange(200_000), generator.randrange(1, 30_000)
        content = generator.randbytes(length)
        if what < 3:
            for file in files:
                assert os.pwrite(file, content, offset) == length
        elif what == 3:
            for file in appending:
                assert os.write(file, content[:500]) == len(content[:500])
        elif what == 4:
            for file in files:
                os.ftruncate(file, offset)
        elif what == 5 and os.fstat(files[1]).st_size:
            size = os.fstat(files[1]).st_size
            at = generator.randrange(size)
            for file in files:
                with mmap.mmap(file, size) as mapped:
                    piece = content[: size - at]
                    mapped[at : at + len(piece)] = piece
                    mapped.flush()
        elif what == 6:
            fallocate(files[0], KEEP_SIZE | PUNCH_HOLE, offset, length)
            left = os.fstat(files[1]).st_size - offset
            os.pwrite(files[1], bytes(min(length, max(left, 0))), offset)
        elif what == 7:
            data = next_of(files[0], offset, os.SEEK_DATA)
            end = os.fstat(files[1]).st_size if data is None else data
            assert not any(os.pread(files[1], max(end - offset, 0), offset)), f"seed {seed}, step {step}: {offset} is data"
            hole = next_of(files[0], offset, os.SEEK_HOLE)
            assert (hole is None) == (offset >= os.fstat(files[1]).st_size), f"seed {seed}, step {step}: {hole}"
        else:
            told = [os.pread(file, length, offset) for file in files]
            assert told[0] == told[1], f"seed {seed}, step {step}: bytes {offset} to {offset + length} differ"
        sizes = [os.fstat(file).st_size for file in files]
        assert sizes[0] == sizes[1], f"seed {seed}, step {step}: sizes {sizes}"
    for file in files + appending:
        os.close(file)
    assert names[0].read_bytes() == names[1].read_bytes(), f"seed {seed}"


def names(here):
    """Names: links, renaming, removal of what is open, special files, many entries."""
    (here / "a" / "b").mkdir(parents=True)
    (here / "a" / "b" / "file").write_bytes(b"content")
    number = (here / "a" / "b" / "file").stat().st_ino
    os.rename(here / "a", here / "moved")
    assert (here / "moved" / "b" / "file").read_bytes() == b"content"
    assert (here / "moved" / "b" / "file").stat().st_ino == number
    assert not (here / "a").exists()
    (here / "a").mkdir()
    assert os.listdir(here / "a") == []
    refuses(errno.ENOTEMPTY, os.rename, here / "a", here / "moved")
    refuses(errno.EINVAL, os.rename, here / "moved", here / "moved" / "b" / "in-itself")
    refuses(errno.ENOTEMPTY, os.rmdir, here / "moved")
    refuses(errno.ENAMETOOLONG, os.mkdir, here / ("x" * 256))
    os.mkdir(here / ("x" * 255))
    os.mkdir(os.fsencode(here) + b"/\xff\xfe\n")
    assert b"\xff\xfe\n" in os.listdir(os.fsencode(here))

    os.link(here / "moved" / "b" / "file", here / "hard")
    assert (here / "hard").stat().st_nlink == 2
    os.symlink("moved/b/file", here / "soft")
    assert (here / "soft").read_bytes() == b"content" and os.readlink(here / "soft") == "moved/b/file"
    os.symlink("loop", here / "loop")
    refuses(errno.ELOOP, os.open, here / "loop", os.O_RDONLY)
    os.unlink(here / "moved" / "b" / "file")
    assert (here / "hard").stat().st_nlink == 1 and (here / "hard").read_bytes() == b"content"

    with open(here / "open", "w+b") as file:
        file.write(b"still there")
        file.flush()
        os.unlink(here / "open")
        refuses(errno.ENOENT, os.stat, here / "open")
        assert os.fstat(file.fileno()).st_nlink == 0
        assert os.pread(file.fileno(), 100, 0) == b"still there"
        (here / "open").write_bytes(b"another")
        assert os.pread(file.fileno(), 100, 0) == b"still there"
    assert (here / "open").read_bytes() == b"another"

    refuses(errno.EEXIST, os.open, here / "open", os.O_CREAT | os.O_EXCL)
    os.mkfifo(here / "pipe")
    assert stat.S_ISFIFO((here / "pipe").stat().st_mode)
    for number in range(3):
        (here / "beside").write_bytes(str(number).encode())
        os.replace(here / "beside", here / "target")
        assert (here / "target").read_bytes() == str(number).encode()

    many = here / "many"
    many.mkdir()
    for number in range(300):
        (many / f"entry-{number:04}").touch()
    assert sorted(os.listdir(many)) == [f"entry-{number:04}" for number in range(300)]
    assert len({entry.inode() for entry in os.scandir(many)}) == 300
    shutil.rmtree(many)
    assert not many.exists()


def holes_are_known(file):
    """Data and holes are told as they are, also of what was written just now, and a hole that is punched is one."""
    os.pwrite(file, b"y" * (3 << 20), 1 << 30)
    assert os.lseek(file, 1 << 20, os.SEEK_DATA) == 1 << 30, "what was just written is data"
    assert os.lseek(file, 1 << 30, os.SEEK_HOLE) == (1 << 30) + (3 << 20)
    # Before there were ten bytes, or the page that has them.
    assert 0 <= os.fstat(file).st_blocks - (3 << 11) <= 8, "holes are no blocks"
    fallocate(file, KEEP_SIZE | PUNCH_HOLE, (1 << 30) + 1000, 2 << 20)
    assert os.lseek(file, 1 << 30, os.SEEK_HOLE) == (1 << 30) + 1000
    assert os.lseek(file, (1 << 30) + 1000, os.SEEK_DATA) == (1 << 30) + 1000 + (2 << 20)
    assert os.pread(file, 3, (1 << 30) + 998) == b"yy\0" and os.fstat(file).st_size == 1 << 33
    fallocate(file, ZERO_RANGE, 0, 1 << 34)
    assert os.fstat(file).st_size == 1 << 34
    refuses(errno.ENXIO, os.lseek, file, 0, os.SEEK_DATA)
    assert os.lseek(file, 5, os.SEEK_HOLE) == 5
    os.truncate(file, 1 << 33)
    os.pwrite(file, b"x" * 10 + b"more", 0)
    # The kernel writes back whole pages, and asks for blocks anew when something is closed.
    os.close(os.dup(file))
    assert os.fstat(file).st_blocks in (1, 8), "holes are no blocks"


KEEP_SIZE, PUNCH_HOLE, ZERO_RANGE = 1, 2, 16


def next_of(file, offset, what):
    """Where the next data or hole is, if there is one."""
    try:
        return os.lseek(file, offset, what)
    except OSError as error:
        assert error.errno == errno.ENXIO, error
        return None


def fallocate(file, mode, offset, length):
    libc = ctypes.CDLL(None, use_errno=True)
    call = libc.fallocate
    call.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]
    if call(file, mode, offset, length) != 0:
        raise OSError(ctypes.get_errno(), "fallocate")


def directories_are_removed(here):
    """Who has a directory or a pipe open that is removed, or that another one takes the place of, may still ask what it is."""
    (here / "removed").mkdir(mode=0o711)
    (here / "replaced").mkdir()
    (here / "other").mkdir()
    open_directories = [os.open(here / name, os.O_RDONLY) for name in ("removed", "replaced")]
    os.rmdir(here / "removed")
    os.rename(here / "other", here / "replaced")
    for directory in open_directories:
        assert stat.S_ISDIR(os.fstat(directory).st_mode) and os.fstat(directory).st_nlink == 0
        assert os.listdir(directory) == []
        refuses(errno.ENOENT, os.open, "new", os.O_CREAT | os.O_WRONLY, dir_fd=directory)
        os.close(directory)
    assert (here / "replaced").stat().st_nlink == 1
    os.rmdir(here / "replaced")
    os.mkfifo(here / "piped", 0o640)
    pipe = os.open(here / "piped", os.O_RDWR)
    os.unlink(here / "piped")
    told = os.fstat(pipe)
    assert stat.S_ISFIFO(told.st_mode) and (told.st_nlink, told.st_mode & 0o7777) == (0, 0o640)
    os.close(pipe)


def metadata(here):
    """Modes, times, extended attributes, locks, sizes, sparse files."""
    path = here / "metadata"
    path.write_bytes(b"x" * 10)
    os.chmod(path, 0o640)
    os.utime(path, ns=(1_000_000_001, 2_000_000_002))
    told = path.stat()
    assert (told.st_mode & 0o7777, told.st_atime_ns, told.st_mtime_ns) == (0o640, 1_000_000_001, 2_000_000_002)
    for times in ((-1_500_000_000, -5), (-1_000_000_000, -2_000_000_001)):
        os.utime(path, ns=times)
        told = path.stat()
        assert (told.st_atime_ns, told.st_mtime_ns) == times, "times before 1970"
    os.utime(path, ns=(1_000_000_001, 2_000_000_002))
    before = path.stat().st_mtime_ns
    with open(path, "ab") as file:
        file.write(b"more")
    assert path.stat().st_mtime_ns > before and path.stat().st_size == 14
    # The kernel and the mount may go by two clocks.
    for number in range(20):
        (made := here / f"made-{number}").touch()
        (written := here / "written").write_bytes(b"x")
        assert written.stat().st_mtime_ns >= made.stat().st_mtime_ns, "what is written later looks no older"
        made.unlink()
    written.unlink()

    os.setxattr(path, "user.color", b"red")
    assert os.getxattr(path, "user.color") == b"red" and os.listxattr(path) == ["user.color"]
    refuses(errno.EEXIST, os.setxattr, path, "user.color", b"blue", os.XATTR_CREATE)
    os.removexattr(path, "user.color")
    refuses(errno.ENODATA, os.getxattr, path, "user.color")

    file = os.open(path, os.O_RDWR)
    os.truncate(path, 1 << 33)
    assert os.lseek(file, 0, os.SEEK_HOLE) == 14 and os.pread(file, 4, 1 << 32) == bytes(4)
    refuses(errno.ENXIO, os.lseek, file, 14, os.SEEK_DATA)
    holes_are_known(file)
    os.posix_fallocate(file, 0, (1 << 33) + 5)
    assert os.fstat(file).st_size == (1 << 33) + 5
    os.truncate(path, 14)
    copy = os.open(here / "copy", os.O_RDWR | os.O_CREAT)
    assert os.copy_file_range(file, copy, 10, 0, 0) == 10 and os.pread(copy, 20, 0) == b"x" * 10
    content = random.Random(7).randbytes(5 << 20)
    (here / "large").write_bytes(content)
    large, done = os.open(here / "large", os.O_RDONLY), 0
    while copied := os.copy_file_range(large, copy, len(content), 1001 + done, 77 + done):
        done += copied
    assert done == len(content) - 1001 and os.pread(copy, 6 << 20, 77) == content[1001:]
    os.close(large)

    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 5, 0)
    code = "import fcntl,os,sys\nf=os.open(sys.argv[1],os.O_RDWR)\nfcntl.lockf(f,fcntl.LOCK_EX|fcntl.LOCK_NB,5,5)\n"
    code += "try: fcntl.lockf(f,fcntl.LOCK_EX|fcntl.LOCK_NB,1,4)\nexcept BlockingIOError: print('held')\n"
    child = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True)
    assert child.stdout == "held\n"
    waiting = "import fcntl,os,sys\nf=os.open(sys.argv[1],os.O_RDWR)\nprint('waits',flush=True)\n"
    waiting += "fcntl.lockf(f,fcntl.LOCK_EX,1,4)\nprint('has it')\n"
    child = subprocess.Popen([sys.executable, "-c", waiting, path], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "waits\n"
    assert not select.select([child.stdout], [], [], 0.2)[0]
    os.close(file)
    assert child.communicate(timeout=30)[0] == "has it\n"
    os.close(copy)

    if os.geteuid() == 0:
        (here / "tool").write_bytes(b"x")
        for mode, left in ((0o6777, 0o777), (0o6666, 0o2666)):
            (here / "tool").chmod(mode)
            subprocess.run(["dd", f"of={here / 'tool'}", "oflag=append", "conv=notrunc", "status=none"], input=b"y", user=65534, group=65534, check=True)
            assert (here / "tool").stat().st_mode & 0o7777 == left, "who may not give rights takes them"
        (here / "tool").chmod(0o6777)
        subprocess.run(["dd", f"of={here / 'tool'}", "status=none"], input=b"", user=65534, group=65534, check=True)
        assert (here / "tool").stat().st_mode & 0o7777 == 0o777, "who empties it takes them"
        held = ["sh", "-c", 'exec 3>>"$1"; echo y >&3; echo open; read line; echo z >&3', "sh", here / "tool"]
        child = subprocess.Popen(held, user=65534, group=65534, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert child.stdout.readline() == "open\n"
        (here / "tool").chmod(0o6777)
        child.communicate("\n", timeout=30)
        assert child.returncode == 0 and (here / "tool").stat().st_mode & 0o7777 == 0o777, "they were given while it was open"
        (here / "private").mkdir(mode=0o700)
        (here / "private" / "file").touch(mode=0o644)
        child = subprocess.run(["cat", here / "private" / "file"], user=65534, group=65534, capture_output=True)
        assert child.returncode != 0 and b"denied" in child.stderr
    assert os.statvfs(here).f_namemax == 255


def tells(here):
    """What the mount tells of itself: counts, and a line for each call."""
    assert re.search(r"^read \d+$", (here / ".stats").read_text(), re.M)
    refuses(errno.EACCES, os.unlink, here / ".stats")
    refuses(errno.EACCES, os.rename, here / ".stats", here / "stats")
    log = os.open(here / ".accesslog", os.O_RDONLY | os.O_NONBLOCK)
    refuses(errno.EAGAIN, os.read, log, 100)
    (here / "with space").touch()
    # Programs buffer as much.
    assert os.stat(here / "with space").st_blksize == 128 << 10
    refuses(errno.ENOENT, os.stat, here / "missing")
    lines = os.read(log, 1 << 20).decode().splitlines()
    for call in (r"make 1/with\\x20space ok", "lookup 1/missing ENOENT"):
        assert any(re.fullmatch(rf"\d+\.\d{{6}} {os.getpid()} {call} \d+", line) for line in lines), (call, lines)
    os.close(log)
    following = subprocess.Popen(["cat", here / ".accesslog"], stdout=subprocess.PIPE, text=True)
    # Until it has opened it, nothing is written down for it.
    while not select.select([following.stdout], [], [], 0)[0]:
        os.path.exists(here / "followed")
    assert any(" lookup 1/followed ENOENT " in line for line in following.stdout)
    following.terminate()
    assert following.wait(timeout=30) == -signal.SIGTERM
    following.stdout.close()


def sees_others(here, there, steps):
    """Whatever a mount and its kernel keep of files, they have what another mount has changed as soon as that has ended."""
    generator = random.Random(steps)
    paths, content = [place / "shared" for place in (here, there)], bytearray(3 << 20)
    paths[0].write_bytes(content)
    readers = [os.open(path, os.O_RDONLY) for path in paths]
    writers = [os.open(path, os.O_RDWR) for path in paths]

    def agree(place, offset, length):
        assert os.pread(readers[place], length, offset) == content[offset : offset + length], (place, offset, length)

    for step in range(steps):
        who = generator.randrange(2)
        for _ in range(generator.randrange(4)):
            agree(generator.randrange(2), generator.randrange(len(content)), generator.randrange(200_000))
        length = generator.randrange(1, 100_000)
        offset = generator.randrange(len(content) - length)
        written = generator.randbytes(length)
        match step % 5:
            case 0:
                offset = generator.randrange(2 << 20, 3 << 20)
                os.ftruncate(writers[who], offset)
                content[:] = content[:offset].ljust(offset, b"\0")
                offset, length = 0, 0
            case 1:
                offset = len(content)
        os.pwrite(writers[who], written[:length], offset)
        content[offset : offset + length] = written[:length]
        for place in (1 - who, who):
            assert os.fstat(readers[place]).st_size == len(content)
            agree(place, offset, length + 5000)
            agree(place, generator.randrange(len(content)), 200_000)
        paths[who].chmod(0o600 + step % 64)
        assert [path.stat().st_mode & 0o777 for path in paths] == [0o600 + step % 64] * 2
        name = f"came-{step % 9}"
        before = (paths[1 - who].parent / name).exists()
        assert before == (name in os.listdir(paths[1 - who].parent))
        new = paths[who].parent / name
        new.unlink() if before else new.write_text(str(step))
        if before:
            refuses(errno.ENOENT, (paths[1 - who].parent / name).stat)
        else:
            assert (paths[1 - who].parent / name).read_text() == str(step)
    for file in (*readers, *writers):
        os.close(file)


def believes_names(here, there, turns):
    """A kernel that believes names for a while is told when they are over: what another mount has renamed, removed, or replaced is so here at once."""
    generator = random.Random(turns)
    mounts = [here / "believed", there / "believed"]
    held = {"a": {"x": "0", "y": "1"}, "b": {"x": "2"}}
    for name, files in held.items():
        (mounts[0] / name).mkdir(parents=True)
        for file, text in files.items():
            (mounts[0] / name / file).write_text(text)

    def lookups(place):
        told = (place.parent / ".stats").read_text()
        return int(re.search(r"^lookup (\d+)$", told, re.MULTILINE)[1])

    def agree(place):
        for name, files in held.items():
            for file in "xyz":
                if file in files:
                    assert (place / name / file).read_text() == files[file], (place, name, file)
                else:
                    refuses(errno.ENOENT, (place / name / file).stat)
            assert sorted(os.listdir(place / name)) == sorted(files)

    for turn in range(turns):
        who = turn % 2
        for place in mounts:
            agree(place)
        # Until its kernel answers for it, which takes that nothing was changed for a second.
        name, file = generator.choice([(name, file) for name, files in held.items() for file in files])
        path, until = mounts[1 - who] / name / file, time.monotonic() + 30
        while True:
            path.stat()
            before = lookups(mounts[1 - who])
            path.stat()
            if lookups(mounts[1 - who]) == before or not KERNEL_HAS_EPOCHS:
                break
            assert time.monotonic() < until, "the kernel believes no name"
        place = mounts[who]
        match generator.randrange(4):
            case 0:
                (place / "new").write_text(f"replaced {turn}")
                (place / "new").rename(place / name / file)
                held[name][file] = f"replaced {turn}"
            case 1:
                (place / name / file).unlink()
                refuses(errno.ENOENT, path.stat)
                (place / name / file).write_text(f"made anew {turn}")
                held[name][file] = f"made anew {turn}"
            case 2:
                (place / "a").rename(place / "c")
                refuses(errno.ENOENT, (mounts[1 - who] / "a" / "x").stat)
                (place / "b").rename(place / "a")
                (place / "c").rename(place / "b")
                held["a"], held["b"] = held["b"], held["a"]
            case 3:
                other = "b" if name == "a" else "a"
                (place / name / file).rename(place / other / file)
                held[other][file] = held[name].pop(file)
        agree(mounts[1 - who])
        agree(place)


# Whether the kernel can be told that all names are over, which a mount that is shared needs to have it believe any: since Linux 6.16.
KERNEL_HAS_EPOCHS = tuple(int(part) for part in re.match(r"(\d+)\.(\d+)", os.uname().release).groups()) >= (6, 16)


def tells_room(tyr, url, here):
    """`statvfs` tells the quota, and what is left of it."""
    quota = 1 << 30
    alter = [tyr, "--store", url, "keyspace", "alter", "files", "--quota"]
    subprocess.run([*alter, str(quota)], check=True, capture_output=True)
    (here / "large").write_bytes(bytes(9 << 20))

    def left():
        told = os.statvfs(here)
        return told.f_blocks * told.f_frsize, told.f_bavail * told.f_frsize

    # The nodes tell one another what they hold, and the mount hears of the quota, each after a moment.
    until = time.monotonic() + 60
    while (told := left())[0] != quota or not quota - (64 << 20) < told[1] <= quota - (9 << 20):
        assert time.monotonic() < until, told
        time.sleep(0.1)
    # What is full can be emptied, also what others may have open.
    (here / "emptied").mkdir()
    for number in range(20):
        (here / "emptied" / str(number)).write_bytes(b"x" * 1000)
    held = open(here / "emptied" / "0", "rb")
    subprocess.run([*alter, "1KiB"], check=True, capture_output=True)
    until = time.monotonic() + 60
    while refused(here) < REFUSED_MAX:
        assert time.monotonic() < until
        time.sleep(0.1)
    shutil.rmtree(here / "emptied")
    assert held.read() == b"x" * 1000 and refused(here) == REFUSED_MAX
    held.close()
    os.unlink(here / "large")
    subprocess.run([*alter, "none"], check=True, capture_output=True)
    while refused(here):
        assert time.monotonic() < until
        time.sleep(0.1)


def refused(here):
    """How many of some small files may not be written now: each node hears of a quota for itself."""
    count = 0
    for number in range(REFUSED_MAX):
        try:
            (here / f"more-{number}").write_bytes(b"x" * 2000)
        except OSError as error:
            assert error.errno == errno.ENOSPC, error
            count += 1
        (here / f"more-{number}").unlink(missing_ok=True)
    return count


REFUSED_MAX = 32


def reads_count(here):
    """A read counts as soon as it has ended, and what sets the time after it stays."""
    for number in range(20):
        path = here / f"read-{number}"
        path.write_bytes(b"x")
        os.utime(path, ns=(1, 2))
        assert path.read_bytes() == b"x"
        assert path.stat().st_atime_ns > 1
        os.utime(path, ns=(3, 4))
        assert path.stat().st_atime_ns == 3
    kept = os.open(path, os.O_RDONLY | os.O_NOATIME)
    assert os.read(kept, 1) == b"x"
    os.close(kept)
    # Those that nobody waited for have not come after all of that.
    assert {path.stat().st_atime_ns for path in here.glob("read-*")} == {3}


def programs(here, local):
    """tar, git, and SQLite."""
    tree = local / "tree"
    for number in range(40):
        (tree / f"d{number % 5}").mkdir(parents=True, exist_ok=True)
        (tree / f"d{number % 5}" / f"f{number}").write_bytes(hashlib.sha256(str(number).encode()).digest() * number)
    archive = subprocess.run(["tar", "-C", tree, "-cf", "-", "."], check=True, capture_output=True).stdout
    (here / "tree").mkdir()
    subprocess.run(["tar", "-C", here / "tree", "-xf", "-"], input=archive, check=True)
    subprocess.run(["diff", "-r", tree, here / "tree"], check=True)

    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main", "-c", "safe.directory=*"]
    subprocess.run([*git, "init", "-q", here / "tree"], check=True)
    subprocess.run([*git, "-C", here / "tree", "add", "."], check=True)
    subprocess.run([*git, "-C", here / "tree", "commit", "-qm", "all"], check=True)
    subprocess.run([*git, "clone", "-q", "--no-hardlinks", here / "tree", here / "clone"], check=True)
    subprocess.run([*git, "-C", here / "clone", "fsck", "--strict"], check=True, capture_output=True)
    assert not subprocess.run([*git, "-C", here / "clone", "status", "--porcelain"], check=True, capture_output=True).stdout

    base = sqlite3.connect(here / "base.sqlite")
    base.execute("create table t (n integer primary key, s text)")
    for start in range(0, 500, 100):
        with base:
            base.executemany("insert into t values (?, ?)", [(n, "x" * n) for n in range(start, start + 100)])
    other = sqlite3.connect(here / "base.sqlite")
    assert other.execute("select count(*), sum(length(s)) from t").fetchone() == (500, sum(range(500)))
    assert other.execute("pragma integrity_check").fetchone() == ("ok",)
    base.close()
    other.close()


def appends(here):
    """Processes that append to one file: each record is there once, whole."""
    code = "import os,sys\nf=os.open(sys.argv[1],os.O_WRONLY|os.O_APPEND|os.O_CREAT)\n"
    code += "for n in range(50): os.write(f,f'{sys.argv[2]} {n:04}\\n'.encode())\n"
    children = [subprocess.Popen([sys.executable, "-c", code, here / "log", name]) for name in "abcd"]
    assert all(child.wait() == 0 for child in children)
    lines = (here / "log").read_text().splitlines()
    assert sorted(lines) == sorted(f"{name} {n:04}" for name in "abcd" for n in range(50))


def everything(here, local, arguments):
    names(here)
    directories_are_removed(here)
    metadata(here)
    tells(here)
    for seed in range(arguments.seeds):
        random_bytes(here, local, seed, arguments.steps)
    appends(here)
    programs(here, local)
    for program in PROGRAMS:
        if arguments.quick or arguments.program and program.__name__ not in arguments.program:
            continue
        places = [place / program.__name__ for place in (here, local)]
        for place in places:
            place.mkdir()
        began = time.monotonic()
        program(*places)
        print(f"{program.__name__}: as it should be, after {time.monotonic() - began:.1f} s", flush=True)
        for place in places:
            shutil.rmtree(place)


def digest(tree):
    """What a tree holds."""
    found = {}
    for directory, directories, files in os.walk(tree):
        directories.sort()
        for name in files:
            path = Path(directory, name)
            if path.is_file() and name not in (".stats", ".accesslog"):
                found[str(path.relative_to(tree))] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def device(path):
    number = os.stat(path).st_dev
    return os.major(number), os.minor(number)


def says_as_json(tyr, store, mounted):
    """As docs/json.md has it."""
    command = [tyr, "--store", store, "mount", "files", mounted, "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    said = json.loads(process.stdout.readline())
    assert said == {"action": "mounted", "keyspace": "files", "directory": str(mounted)}, said
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 0


def in_a_directory(tyr, work, arguments):
    (mounted := work / "mounted").mkdir()
    (local := work / "local").mkdir()
    store = work / "store"
    missing = subprocess.run([tyr, "--store", store, "keyspace", "create", "empty"], capture_output=True)
    assert missing.returncode == 0
    refused = subprocess.run([tyr, "--store", store, "mount", "empty", mounted], capture_output=True, text=True)
    assert refused.returncode == 15 and "no file system" in refused.stderr, refused.stderr
    with Mount(tyr, "files", mounted, "--create", store=store) as here:
        everything(here, local, arguments)
        before = digest(here)
        known = Path("/sys/class/bdi", "{}:{}".format(*device(here)), "read_ahead_kb")
        if os.access(known, os.W_OK):
            assert known.read_text() == "1024\n"
    with Mount(tyr, "files", mounted, "--read-only", store=store) as here:
        assert digest(here) == before
        refuses(errno.EROFS, os.mkdir, here / "new")
    with Mount(tyr, "files", mounted, store=store) as here:
        (here / "moved" / ".stats").write_bytes(b"a user's")
    with Mount(tyr, "files/moved", mounted, store=store) as here:
        assert (here / ".stats").read_bytes() == b"a user's"
        (here / ".stats").unlink()
        assert os.listdir(here) == ["b"]
        assert (here / ".stats").read_bytes().startswith(b"lookup ")
    flat_mounts_are_right(tyr, Mount, store, mounted, [[]])
    ends_by_force(tyr, store, mounted)
    says_as_json(tyr, store, mounted)
    busy = Mount(tyr, "files", mounted, store=store)
    with busy as here:
        kept = open(here / "hard", "rb")
        busy.process.send_signal(signal.SIGTERM)
        said = busy.process.stderr.readline()
        assert "in use" in said, said
        assert kept.read() == b"content"
        kept.close()
        assert busy.process.wait(timeout=60) == 0
    listed = subprocess.run([tyr, "--store", store, "--json", "fs", "ls", "files/moved"], check=True, capture_output=True)
    assert [entry["name"] for entry in json.loads(listed.stdout)["entries"]] == ["b"]
    in_background = [tyr, "--store", store, "mount", "--daemon", "files", mounted, "-o", "ro,noauto"]
    # What it leaves running does not keep its standard error open.
    with subprocess.Popen(in_background, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as starting:
        said = starting.communicate(timeout=60)[1]
        assert starting.returncode == 0 and not said, said
        assert os.path.ismount(mounted) and digest(mounted) == before
        subprocess.run(["umount", mounted], check=True)
        # It is waited for until the store is closed.
        again = [*in_background[:-1], "noexec,nodiratime,allow_other"]
        subprocess.run(again, check=True, stdout=subprocess.DEVNULL, timeout=60)
    (work / "plain").touch()
    nowhere = subprocess.run([*in_background[:5], "files", work / "plain"], capture_output=True, text=True, timeout=60)
    assert nowhere.returncode == 12 and "in use" in nowhere.stderr, nowhere
    (mounted / "program").write_text("#!/bin/sh\n")
    (mounted / "program").chmod(0o755)
    refuses(errno.EACCES, subprocess.run, [mounted / "program"])
    if os.geteuid() == 0:
        (other := work / "other").mkdir()
        refusal = [tyr, "mount", "files", other, "-o", "remount,ro"]
        for said in ("nothing is mounted there", "of type tmpfs"):
            refused = subprocess.run(refusal, capture_output=True, text=True, timeout=60)
            assert refused.returncode == 1 and said in refused.stderr, refused
            if not os.path.ismount(other):
                subprocess.run(["mount", "-t", "tmpfs", "none", other], check=True)
        (other / "file").touch()
        subprocess.run(["umount", other], check=True)
        for options, may_write in (("ro", False), ("rw,nodiratime", True)):
            remount = [tyr, "mount", "files", mounted, "-o", f"remount,user_id=0,{options}"]
            subprocess.run(remount, check=True, stdout=subprocess.DEVNULL, timeout=60)
            if may_write:
                (mounted / "program").unlink()
            else:
                refuses(errno.EROFS, os.unlink, mounted / "program")
    full = os.open(mounted / "full", os.O_RDWR | os.O_CREAT)
    told = os.statvfs(mounted)
    refuses(errno.ENOSPC, fallocate, full, 0, 0, 2 * told.f_frsize * told.f_bavail)
    assert os.fstat(full).st_size == 0
    os.close(full)
    subprocess.run(["umount", mounted], check=True)
    nowhere = subprocess.run([*in_background[:5], "files", work / "plain"], capture_output=True, text=True, timeout=60)
    assert nowhere.returncode == 1 and nowhere.stderr.count("\n") == 1 and "irectory" in nowhere.stderr, nowhere


def of_a_cluster(tyr, work, arguments):
    command = [tyr, "--json", "dev", "-n", "3"]
    cluster = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        url = json.loads(cluster.stdout.readline())["url"]
        (one := work / "one").mkdir()
        (two := work / "two").mkdir()
        (local := work / "local-2").mkdir()
        with Mount(tyr, f"{url}/files", one, "--create") as here, Mount(tyr, f"{url}/files", two) as there:
            (here / "seen").write_bytes(b"at once")
            assert (there / "seen").read_bytes() == b"at once"
            kept = os.open(there / "seen", os.O_RDWR)
            os.pwrite(kept, b"AT", 0)
            assert (here / "seen").read_bytes() == b"AT once"
            os.unlink(here / "seen")
            assert os.pread(kept, 10, 0) == b"AT once"
            refuses(errno.ENOENT, os.stat, there / "seen")
            os.close(kept)
            reads_count(here)
            sees_others(here, there, 100)
            for goes in (gives_nobody_more, lists_what_stays, reads_what_was_written, appends_as_told):
                goes(here, there)
            gives_up_what_was_waited_for(here)
            shows_who_may_see(here)
            moves_to_names(here, there, lambda: keys_below(tyr, url, "/moves/"))
            locks_files(here, there)
            waits_are_interrupted(here, there)
            tells_deadlocks(here, there)
            tells_room(tyr, url, here)
            ends_programs(here, cluster)
            everything(here, local, arguments)
            assert digest(there) == digest(here)
        with Mount(tyr, f"{url}/files", one, "--keep-names") as here, Mount(tyr, f"{url}/files", two, "-o", "keepnames") as there:
            believes_names(here, there, 6 if arguments.quick else 60)
        if os.geteuid() == 0:
            (listed := work / "local-3").mkdir()
            listed.chmod(0o755)
            with Mount(tyr, f"{url}/files", one) as here:
                refuses(errno.ENOTSUP, os.setxattr, here, "system.posix_acl_access", named(7, 7, 7))
            for flags in (["--read-only", "--acl"], ["-o", "remount,acl"]):
                refusal = subprocess.run([tyr, "mount", f"{url}/files", one, *flags], capture_output=True, text=True)
                assert refusal.returncode == 2 and "said once" in refusal.stderr, refusal
            with Mount(tyr, f"{url}/files", one, "--acl") as here, Mount(tyr, f"{url}/files", two) as there:
                obeys_lists(here, there)
                assert digest(there) == digest(here)
            obeys_lists(listed, listed)
        with Mount(tyr, f"{url}/files", one, "-o", "localflock") as here, Mount(tyr, f"{url}/files", two) as there:
            files = [os.open(place / "locked", os.O_RDWR) for place in (here, here, there)]
            fcntl.flock(files[0], fcntl.LOCK_EX)
            refuses(errno.EAGAIN, fcntl.flock, files[1], fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.flock(files[2], fcntl.LOCK_EX | fcntl.LOCK_NB)
            for file in files:
                os.close(file)
        with Mount(tyr, f"{url}/files", one) as here, Mount(tyr, f"{url}/files", two, "--read-only") as there:
            written, read = os.open(here / "locked", os.O_RDWR), os.open(there / "locked", os.O_RDONLY)
            fcntl.lockf(written, fcntl.LOCK_EX)
            # Who changes nothing has locks of his own, which nobody need note.
            fcntl.lockf(read, fcntl.LOCK_SH | fcntl.LOCK_NB)
            fcntl.flock(read, fcntl.LOCK_SH | fcntl.LOCK_NB)
            for file in (written, read):
                os.close(file)
        flat_mounts_are_right(tyr, Mount, url, one, [[], ["--alone"], ["--attr-cache", "60"]])
        stays_mounted(tyr, f"{url}/files", one)
        if not arguments.quick:
            silence_costs_locks(tyr, url, (one, two))
    finally:
        cluster.send_signal(signal.SIGTERM)
        cluster.wait(timeout=60)


def ends_by_force(tyr, store, directory):
    """Who mounts where the process of another mount was killed is told what is there, and how it goes."""
    killed = Mount(tyr, "files", directory, store=store)
    kept = os.open(directory / "hard", os.O_RDONLY)
    killed.process.kill()
    killed.process.communicate()
    refuses(errno.ENOTCONN, os.pread, kept, 1, 0)
    again = subprocess.run([tyr, "--store", store, "mount", "files", directory], capture_output=True, text=True, timeout=60)
    assert again.returncode == 1 and f"'umount -l {directory}'" in again.stderr, again
    subprocess.run(["umount", "-l", directory], check=True)
    with Mount(tyr, "files", directory, store=store) as here:
        assert (here / "hard").read_bytes() == b"content"
    refuses(errno.ENOTCONN, os.close, kept)


def silence_costs_locks(tyr, url, places):
    """A mount that says nothing for long loses its locks, and what its programs have open they cannot change any more."""
    program = "import fcntl,os,sys\nf=os.open(sys.argv[1],os.O_RDWR)\nprint('has it open',flush=True)\nsys.stdin.readline()\n"
    program += "fcntl.lockf(f,fcntl.LOCK_EX)\nos.pwrite(f,b'other',0)\nprint('wrote',flush=True)\nsys.stdin.read()\n"
    silent = Mount(tyr, f"{url}/files", places[0])
    with silent as here, Mount(tyr, f"{url}/files", places[1]) as there:
        (here / "owned").write_bytes(b"first")
        files = [os.open(here / "owned", os.O_RDWR) for _ in range(6)]
        fcntl.lockf(files[0], fcntl.LOCK_EX)
        # Before the mount is silent: a process begins by closing what it is not to have.
        other = subprocess.Popen([sys.executable, "-c", program, there / "owned"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert other.stdout.readline() == "has it open\n"
        silent.process.send_signal(signal.SIGSTOP)
        other.stdin.write("go on\n")
        other.stdin.flush()
        assert other.stdout.readline() == "wrote\n"
        silent.process.send_signal(signal.SIGCONT)
        refuses(errno.ESTALE, os.pwrite, files[0], b"mine", 0)
        refuses(errno.ESTALE, os.ftruncate, files[1], 0)
        refuses(errno.ESTALE, fallocate, files[2], KEEP_SIZE | PUNCH_HOLE, 0, 5)
        refuses(errno.ESTALE, os.pread, files[3], 5, 0)
        refuses(errno.ESTALE, os.fsync, files[4])
        for file in files:
            refuses(errno.ESTALE, os.close, file)
        assert (here / "owned").read_bytes() == (there / "owned").read_bytes() == b"other"
        other.communicate(timeout=60)


def stays_mounted(tyr, source, directory):
    """What is mounted where another mount has just been unmounted stays there when the other one's process ends."""
    for _ in range(3):
        before = Mount(tyr, source, directory)
        subprocess.run(["umount", directory], check=True)
        with Mount(tyr, source, directory):
            assert before.process.wait(timeout=60) == 0
            assert os.path.ismount(directory)
            before.process.communicate()
            if os.geteuid() == 0:
                types = [line.split()[2] for line in Path("/proc/mounts").read_text().splitlines() if line.split()[1] == str(directory)]
                assert types == ["fuse.tyr"], types


BUSY = """
import os, sys
here = sys.argv[1]
log = os.open(here + "/log", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
step = 0
while os.path.exists(here + "/go-on"):
    with open(f"{here}/new", "x") as file:
        file.write(f"content {step}")
    os.rename(f"{here}/new", f"{here}/file-{step % 7}")
    assert open(f"{here}/file-{step % 7}").read() == f"content {step}"
    os.write(log, f"step {step}\\n".encode())
    if step % 7 == 3:
        os.unlink(f"{here}/file-{step % 7}")
    print(step, flush=True)
    step += 1
"""


def outlives_nodes(tyr, work):
    """A program goes on while nodes are killed, one after the other: it sees no failure, and nothing is lost."""
    (one := work / "one").mkdir(exist_ok=True)
    with Nodes(tyr, work / "nodes") as nodes:
        with Mount(tyr, "files", one, "--create", store=nodes.url) as here:
            (here / "go-on").touch()
            busy = subprocess.Popen([sys.executable, "-c", BUSY, here], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for number in range(3):
                for kills in (True, False):
                    for _ in range(20):
                        assert (line := busy.stdout.readline()), busy.communicate()[1]
                    if kills:
                        nodes.kill(number)
                nodes.start(number)
            (here / "go-on").unlink()
            rest, said = busy.communicate(timeout=120)
            assert busy.returncode == 0, said
            last = int((line + rest).split()[-1])
        # What a mount that knows nothing finds.
        with Mount(tyr, "files", one, store=nodes.url) as here:
            assert (here / "log").read_text() == "".join(f"step {step}\n" for step in range(last + 1))
            expected = {step % 7: f"content {step}" for step in range(last - 6, last + 1) if step % 7 != 3}
            assert {int(path.name[5:]): path.read_text() for path in here.glob("file-*")} == expected


def may_mount():
    """Why nobody may mount here; None if somebody may."""
    try:
        os.close(os.open("/dev/fuse", os.O_RDWR))
    except OSError as error:
        return f"/dev/fuse: {error.strerror}"
    capabilities = re.search(r"^CapEff:\s*(\w+)$", Path("/proc/self/status").read_text(), re.M)
    if int(capabilities[1], 16) >> CAP_SYS_ADMIN & 1:
        return None
    if os.geteuid() == 0:
        return "the superuser may not mount in this container"
    if not shutil.which("fusermount3"):
        return "not the superuser, and there is no fusermount3"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tyr", required=True, help="the command")
    parser.add_argument("--quick", action="store_true", help="without the programs of fs_programs.py")
    parser.add_argument("--program", action="append", choices=[program.__name__ for program in PROGRAMS], help="of these, only this")
    parser.add_argument("--steps", type=int, help="random steps with each file; 3000, or 200 if it is to be quick")
    parser.add_argument("--seeds", type=int, default=3, help="files that are changed at random")
    parser.add_argument("--only", choices=["directory", "cluster"], help="only on this")
    arguments = parser.parse_args()
    arguments.steps = arguments.steps or (200 if arguments.quick else 3000)
    if reason := may_mount():
        print(f"nothing is mounted, so nothing of a mount is tested: {reason}")
        return
    work = Path(tempfile.mkdtemp(prefix="tyr-fs-"))
    # Some programs do what they do as other users.
    work.chmod(0o711)
    try:
        if arguments.only != "cluster":
            in_a_directory(arguments.tyr, work, arguments)
            print("a mount of a directory does what it should")
        if arguments.only != "directory":
            of_a_cluster(arguments.tyr, work, arguments)
            print("mounts of a cluster do what they should")
            if not arguments.quick and not arguments.program:
                outlives_nodes(arguments.tyr, work)
                print("a mount outlives nodes of its cluster")
    finally:
        for name in ("mounted", "one", "two"):
            if os.path.ismount(work / name):
                subprocess.run(["umount", "-l", work / name], check=False)
        shutil.rmtree(work, ignore_errors=True)


CAP_SYS_ADMIN = 21

if __name__ == "__main__":
    main()
