"""What one mount does between two steps of another one."""

import errno
import fcntl
import os
import struct
import subprocess
import sys
import traceback

from fs_refusal import refuses


class Other:
    """Something that is done by a process of another user; when the block ends it has to have worked."""

    def __init__(self, work):
        self.process = os.fork()
        if self.process == 0:
            status = 1
            try:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
                work()
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process:
            assert os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1]) == 0

    def has_ended(self):
        ended, status = os.waitpid(self.process, os.WNOHANG)
        if ended:
            self.process = None
            assert os.waitstatus_to_exitcode(status) == 0
        return bool(ended)


def gives_nobody_more(here, there):
    """Who creates a file that another mount has made meanwhile opens no more of it than the permissions allow."""
    if os.geteuid() != 0:
        return
    (here / "sticky").mkdir()
    (here / "sticky").chmod(0o1777)

    def create():
        for _ in range(1500):
            try:
                file = os.open(there / "sticky" / "name", os.O_RDWR | os.O_CREAT, 0o600)
            except PermissionError:
                continue
            assert os.fstat(file).st_uid == 65534, os.fstat(file)
            os.close(file)
            try:
                os.unlink(there / "sticky" / "name")
            except (PermissionError, FileNotFoundError):
                pass

    with Other(create) as other:
        while not other.has_ended():
            try:
                os.close(os.open(here / "sticky" / "name", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
                os.unlink(here / "sticky" / "name")
            except (FileExistsError, FileNotFoundError):
                pass


def lists_what_stays(here, there):
    """Who lists a directory finds all names that are there all the time, however many others are removed meanwhile."""
    (here / "crowded").mkdir()
    names = [f"n{number:04}" for number in range(300)]
    for name in names:
        (here / "crowded" / name).touch()
    entries = os.scandir(there / "crowded")
    listed = {next(entries).name}
    # So the kernel goes on asking what the entries are.
    (there / "crowded" / "n0250").stat()
    removed = names[60:140]
    for name in removed:
        (here / "crowded" / name).unlink()
    listed.update(entry.name for entry in entries)
    assert set(names) - set(removed) <= listed, sorted(set(names) - set(removed) - listed)
    assert sorted(os.listdir(there / "crowded")) == [name for name in names if name not in removed]


def reads_what_was_written(here, there):
    """What was written over, and given the time back that it had, is read by whoever has the file open, and by who opens it."""
    old, new = b"1" * 200_000, b"2" * 200_000
    (here / "dated").write_bytes(old)
    reader = os.open(there / "dated", os.O_RDONLY)
    before = (there / "dated").stat()
    assert os.pread(reader, len(old), 0) == old
    for content in (new, old, new):
        writer = os.open(here / "dated", os.O_WRONLY)
        os.pwrite(writer, content, 0)
        os.utime(writer, ns=(before.st_atime_ns, before.st_mtime_ns))
        os.close(writer)
        assert os.pread(reader, len(content), 0) == content
        assert (there / "dated").read_bytes() == content
    os.close(reader)
    # Nor does the kernel keep what it has read of one that nobody has open.
    writer = os.open(here / "dated", os.O_WRONLY)
    os.pwrite(writer, old, 0)
    os.utime(writer, ns=(before.st_atime_ns, before.st_mtime_ns))
    os.close(writer)
    assert (there / "dated").read_bytes() == old


def appends_as_told(here, there):
    """Whether what is written goes to the end may be said when the file is open."""
    files = [os.open(place / "told", os.O_RDWR | os.O_CREAT) for place in (here, there)]
    for file in files:
        fcntl.fcntl(file, fcntl.F_SETFL, os.O_APPEND)
    for number in range(50):
        for file in files:
            assert os.write(file, f"{number:03}\n".encode()) == 4
    assert (here / "told").read_text().split() == [f"{number // 2:03}" for number in range(100)]
    for file in files:
        fcntl.fcntl(file, fcntl.F_SETFL, 0)
    os.pwrite(files[1], b"over", 0)
    assert (here / "told").read_bytes()[:8] == b"over000\n" and (here / "told").stat().st_size == 400
    for file in files:
        os.close(file)


def gives_up_what_was_waited_for(here):
    """Who gets a lock after he has closed another descriptor of the file has none any more when he has ended."""
    path = here / "waited-for"
    path.touch()
    holder = os.open(path, os.O_RDWR)
    fcntl.lockf(holder, fcntl.LOCK_EX)
    code = "import fcntl, os, sys, threading\nfiles = [os.open(sys.argv[1], os.O_RDWR) for _ in 'ab']\n"
    code += "def wait():\n    fcntl.lockf(files[0], fcntl.LOCK_EX)\n    print('has it', flush=True)\n"
    code += "waiting = threading.Thread(target=wait)\nwaiting.start()\n"
    # Whether it waits by then the kernel tells; it says so of no lock that a file system keeps, but where its threads are.
    code += "while not any('fuse' in open(f'/proc/self/task/{task}/wchan').read() or 'request_wait' in open(f'/proc/self/task/{task}/wchan').read() for task in os.listdir('/proc/self/task')): pass\n"
    code += "os.close(files[1])\nprint('closed', flush=True)\nwaiting.join()\n"
    child = subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "closed\n"
    fcntl.lockf(holder, fcntl.LOCK_UN)
    assert child.communicate(timeout=30)[0] == "has it\n"
    fcntl.lockf(holder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(holder)


def shows_who_may_see(here):
    """Attributes of the superuser are not even named to others, and rights by a file's attributes are refused: nothing looks at them."""
    path = here / "attributes"
    path.touch()
    if os.geteuid() != 0:
        return
    os.setxattr(path, "trusted.color", b"red")
    os.setxattr(path, "user.color", b"blue")

    def look():
        assert os.listxattr(path) == ["user.color"], os.listxattr(path)

    with Other(look):
        pass
    assert sorted(os.listxattr(path)) == ["trusted.color", "user.color"]
    refuses(errno.ENOTSUP, os.setxattr, path, "security.capability", struct.pack("<5I", 0x02000000, 1 << 10, 0, 0, 0))
