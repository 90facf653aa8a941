"""What programs see of a mount while nothing of its cluster serves."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

CALLER = """
import os, sys
call, directory, name = sys.argv[1:]
directory = os.open(directory, os.O_RDONLY)
file = os.open(name, os.O_RDWR, dir_fd=directory)
print("is ready", flush=True)
sys.stdin.readline()
print("asks", flush=True)
eval(call)
"""

# What ends by a signal, and what is done all the same.
READS = {
    "look up": "os.stat('nothing', dir_fd=directory)",
    "stat": "os.fstat(file)",
    "list": "os.listdir(directory)",
    "open": "os.open('asked-for', os.O_RDONLY, dir_fd=directory)",
    "read": "os.pread(file, 10, 0)",
}
WRITES = "os.pwrite(file, b'written', 0)"


def ends_programs(here, cluster):
    """A signal ends a program that waits for a cluster that is away, unless it is changing something, which happens or does not as always."""
    (here / "asked-for").write_bytes(b"content")
    log = AccessLog(here)
    callers = {what: Caller(here, call) for what, call in [*READS.items(), ("write", WRITES), ("handle", READS["look up"])]}
    cluster.send_signal(signal.SIGSTOP)
    try:
        callers["write"].asks(log)
        # Python handles this one. It ends after what the mount keeps a copy of does.
        callers["handle"].asks(log)
        callers["handle"].process.send_signal(signal.SIGINT)
        assert (said := log.failure(callers["handle"].process.pid)).endswith("EINTR"), said
        assert "KeyboardInterrupt" in callers["handle"].process.communicate(timeout=60)[1]
        callers["write"].process.send_signal(signal.SIGTERM)
        for what in READS:
            callers[what].asks(log)
            callers[what].process.send_signal(signal.SIGTERM)
            said = log.failure(callers[what].process.pid)
            assert said.endswith("EINTR"), f"{what}: {said}"
            assert callers[what].process.wait(60) == -signal.SIGTERM, what
        assert callers["write"].process.poll() is None
        cluster.send_signal(signal.SIGCONT)
        assert callers["write"].process.wait(60) == -signal.SIGTERM
        assert (here / "asked-for").read_bytes() == b"written"
    finally:
        cluster.send_signal(signal.SIGCONT)
        for caller in callers.values():
            caller.process.kill()
            caller.process.communicate()
        log.close()


class Caller:
    """A program that makes one call when it is told to, with what it needs for that open already."""

    def __init__(self, here, call):
        command = [sys.executable, "-c", CALLER, call, here, "asked-for"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "is ready\n"

    def asks(self, log):
        """Makes it, and waits until it waits for the answer."""
        self.process.stdin.write("go on\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "asks\n"
        place = Path(f"/proc/{self.process.pid}/wchan")
        while "request_wait_answer" not in place.read_text():
            time.sleep(0.001)
        # What the kernel has not told the mount yet it takes back itself. It tells it one thing after the other, and this the mount answers alone.
        os.pread(log.stats, 1, 0)


class AccessLog:
    """What a mount says that it has done."""

    def __init__(self, here):
        self.file, self.stats = (os.open(here / name, os.O_RDONLY) for name in (".accesslog", ".stats"))
        self.lines = []

    def failure(self, process):
        """The next call of a process that fails: what it was, and why it has."""
        while True:
            while self.lines:
                _, asker, *call, result, _ = self.lines.pop(0).split()
                if asker == str(process) and result != "ok":
                    return " ".join([*call, result])
            self.lines = os.read(self.file, 1 << 20).decode().splitlines()

    def close(self):
        os.close(self.file)
        os.close(self.stats)
