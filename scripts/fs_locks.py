"""Locks of files, through one mount and through two."""

import errno
import fcntl
import os
import select
import struct
import subprocess
import sys

from fs_refusal import refuses


def locks_files(here, there):
    """`flock` through two mounts: seen by both, and given up when the last descriptor is closed."""
    (here / "locked").touch()
    tries = [here / "locked", there / "locked"]
    for one, other in (tries, reversed(tries), (tries[0], tries[0])):
        holder, rival = os.open(one, os.O_RDWR), os.open(other, os.O_RDONLY)
        fcntl.flock(holder, fcntl.LOCK_SH)
        fcntl.flock(rival, fcntl.LOCK_SH | fcntl.LOCK_NB)
        refuses(errno.EAGAIN, fcntl.flock, holder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(rival, fcntl.LOCK_UN)
        fcntl.flock(holder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        second = os.dup(holder)
        os.close(holder)
        refuses(errno.EAGAIN, fcntl.flock, rival, fcntl.LOCK_SH | fcntl.LOCK_NB)
        os.close(second)
        fcntl.flock(rival, fcntl.LOCK_EX)
        os.close(rival)
    # Locks of an open file description go with its last descriptor, of which the kernel tells in the background.
    lock = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 10, 0)
    for one, other in (tries, reversed(tries), (tries[0], tries[0])):
        holder, rival = os.open(one, os.O_RDWR), os.open(other, os.O_RDWR)
        fcntl.fcntl(holder, fcntl.F_OFD_SETLK, lock)
        second = os.dup(holder)
        os.close(holder)
        os.close(os.open(one, os.O_RDONLY))
        refuses(errno.EAGAIN, fcntl.fcntl, rival, fcntl.F_OFD_SETLK, lock)
        os.close(second)
        if one == other:
            assert struct.unpack("hhqqi4x", fcntl.fcntl(rival, fcntl.F_OFD_GETLK, lock))[0] == fcntl.F_UNLCK
        fcntl.fcntl(rival, fcntl.F_OFD_SETLKW, lock)
        os.close(rival)
    # Through one mount nobody sees that a lock is given up after the file was closed.
    for _ in range(50):
        file = os.open(here / "locked", os.O_RDWR)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(file)
    rival = os.open(here / "locked", os.O_RDWR)
    for _ in range(200):
        file = os.open(here / "locked", os.O_RDWR)
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, lock)
        os.close(file)
        assert struct.unpack("hhqqi4x", fcntl.fcntl(rival, fcntl.F_OFD_GETLK, lock))[0] == fcntl.F_UNLCK
    os.close(rival)
    waiting = "import fcntl,os,sys\nf=os.open(sys.argv[1],os.O_RDWR)\nprint('waits',flush=True)\n"
    waiting += "fcntl.flock(f,fcntl.LOCK_EX)\nprint('has it')\n"
    file = os.open(here / "locked", os.O_RDWR)
    fcntl.flock(file, fcntl.LOCK_EX)
    child = subprocess.Popen([sys.executable, "-c", waiting, there / "locked"], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "waits\n"
    assert not select.select([child.stdout], [], [], 0.2)[0]
    os.close(file)
    assert child.communicate(timeout=30)[0] == "has it\n"


INTERRUPTED = """
import ctypes, fcntl, os, signal, struct, sys, threading
libc = ctypes.CDLL(None, use_errno=True)
file = os.open(sys.argv[1], os.O_RDWR)
lock = ctypes.create_string_buffer(struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 10, 0))
told = []
def wait():
    told.append((libc.fcntl(file, fcntl.F_SETLKW, lock), ctypes.get_errno()))
signal.signal(signal.SIGUSR1, lambda *_: None)
signal.siginterrupt(signal.SIGUSR1, True)
waiter = threading.Thread(target=wait, daemon=True)
waiter.start()
# It may not wait yet when the first signal comes.
for _ in range(100):
    if waiter.is_alive():
        signal.pthread_kill(waiter.ident, signal.SIGUSR1)
        waiter.join(0.1)
print(told)
"""


def waits_are_interrupted(here, there):
    """A signal for the thread that waits for a lock ends its wait, whoever has the lock."""
    (here / "locked").touch()
    for holder in (here, there):
        file = os.open(holder / "locked", os.O_RDWR)
        fcntl.lockf(file, fcntl.LOCK_EX)
        waiting = [sys.executable, "-c", INTERRUPTED, here / "locked"]
        told = subprocess.run(waiting, capture_output=True, text=True, check=True, timeout=60).stdout
        assert told == f"[(-1, {errno.EINTR})]\n", told
        os.close(file)


def tells_deadlocks(here, there):
    """Two programs that would wait for one another for ever: one of them is told so, the other one gets its lock."""
    program = """import errno, fcntl, os, sys
own, other = (os.open(path, os.O_RDWR | os.O_CREAT) for path in sys.argv[1:])
fcntl.lockf(own, fcntl.LOCK_EX)
print("has its own", flush=True)
sys.stdin.readline()
try:
    fcntl.lockf(other, fcntl.LOCK_EX)
    print("has both")
except OSError as error:
    assert error.errno == errno.EDEADLK, error
    print("is told")
"""
    for places in ((here, there), (there, there)):
        paths = [place / name for place in places for name in ("locked", "locked-too")]
        pairs = (paths[:2], paths[:1:-1])
        children = [subprocess.Popen([sys.executable, "-c", program, *pair], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for pair in pairs]
        assert [child.stdout.readline() for child in children] == ["has its own\n"] * 2
        for child in children:
            child.stdin.write("go on\n")
            child.stdin.flush()
        told = sorted(child.communicate(timeout=30)[0] for child in children)
        assert told == ["has both\n", "is told\n"], told
