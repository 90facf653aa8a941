"""Has programs that know nothing of Týr use a file system of a cluster by the preload library, and checks what they did."""

import argparse
import contextlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

PREFIX = "/tyr-preload-test"
HERE = Path(__file__).resolve().parent


class Failed(Exception):
    pass


@contextlib.contextmanager
def cluster(tyr):
    process = subprocess.Popen([tyr, "--json", "dev", "-n", "1"], stdout=subprocess.PIPE, text=True)
    try:
        yield json.loads(process.stdout.readline())["url"]
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)


class Programs:
    """Runs programs with the library."""

    def __init__(self, library, source, scratch, **more):
        assert Path(library).is_file(), library
        self.environment = {**os.environ, "LD_PRELOAD": str(Path(library).resolve()), "TYR_MOUNT": f"{PREFIX}={source}", **more}
        self.scratch = scratch

    def run(self, *command, stdin=None, code=0, **more):
        done = subprocess.run(
            ["env", *(f"{name}={self.environment[name]}" for name in ("LD_PRELOAD", "TYR_MOUNT")), *map(str, command)],
            input=stdin, capture_output=True, env={**os.environ, **more}, timeout=120,
        )
        if code is not None and done.returncode != code:
            raise Failed(f"{command}: exit code {done.returncode}\n{done.stdout.decode()}\n{done.stderr.decode()}")
        return done.stdout

    def sh(self, script, shell="sh"):
        return self.run(shell, "-ec", f"cd {PREFIX}; {script}").decode()


def compile_c(name, scratch, *options):
    program = scratch / name
    subprocess.run(["cc", "-O1", "-g", "-w", "-pthread", str(HERE / f"{name}.c"), "-o", str(program), *options], check=True)
    return program


def same(what, got, expected):
    if got != expected:
        raise Failed(f"{what}: {got!r} and not {expected!r}")


def calls(programs, scratch):
    """Every call, beside the same calls on a disk."""
    program = compile_c("calls", scratch)
    disk = scratch / "disk"
    disk.mkdir()
    programs.run("mkdir", f"{PREFIX}/calls")
    ours = programs.run(program, f"{PREFIX}/calls").decode().splitlines()
    theirs = subprocess.run([program, disk], capture_output=True, check=True, text=True).stdout.splitlines()
    for mine, disk_line in zip(ours, theirs, strict=True):
        same("the same call on a disk", mine, disk_line)
    # Nothing of it has come to the disk of this machine.
    assert not Path(PREFIX).exists()


def beside_disk(name, programs, scratch):
    """Runs a program of ours below the prefix and on a disk, and compares what it says."""
    program = compile_c(name, scratch)
    disk, other = scratch / f"disk-{name}", scratch / f"other-{name}"
    disk.mkdir()
    other.mkdir()
    programs.run("mkdir", f"{PREFIX}/{name}")
    ours = programs.run(program, f"{PREFIX}/{name}", other).decode().splitlines()
    theirs = subprocess.run([program, disk, other], capture_output=True, check=True, text=True).stdout.splitlines()
    for mine, disk_line in zip(ours, theirs, strict=True):
        same("the same on a disk", mine, disk_line)
    programs.run("rm", "-r", f"{PREFIX}/{name}")


def requests(programs, scratch):
    """Requests that a program does not wait for, beside the same on a disk."""
    beside_disk("requests", programs, scratch)


def searches(programs, scratch):
    """Directories that the C library looks through, beside the same on a disk."""
    beside_disk("searches", programs, scratch)


def coreutils(programs, scratch):
    """Files copied in and out, listed, moved, found, removed."""
    tree = scratch / "tree"
    (tree / "sub" / "deep").mkdir(parents=True)
    (tree / "sub" / "big").write_bytes(os.urandom(3_000_001))
    for number in range(20):
        (tree / f"file-{number:02}").write_text(f"content of {number}\n")
    (tree / "sub" / "deep" / "link").symlink_to("../big")
    os.utime(tree / "file-00", (1_000_000_000, 1_100_000_000))
    programs.run("cp", "-a", tree, f"{PREFIX}/tree")
    same("ls", programs.sh("ls tree"), subprocess.run(["ls", tree], capture_output=True, text=True).stdout)
    programs.sh("ls -la tree | grep -q 'file-00$'; ls -l tree/sub/deep | grep -q 'link -> ../big'; stat -c %Y tree/file-00 | grep -qx 1100000000")
    same("cat", programs.run("cat", f"{PREFIX}/tree/file-07"), b"content of 7\n")
    same("dd", programs.run("dd", f"if={PREFIX}/tree/sub/deep/link", "bs=64k", "status=none"), (tree / "sub" / "big").read_bytes())
    found = programs.sh("find tree -type f | sort | wc -l; find tree -name 'file-1*' -size -2 | wc -l; du -s tree >/dev/null; df . >/dev/null")
    same("find", found.split(), ["21", "10"])
    programs.sh("mv tree moved; mv moved/file-01 moved/sub; rm moved/file-02; ln moved/file-03 hard; cmp hard moved/file-03; test ! -e tree")
    programs.run("cp", "-r", f"{PREFIX}/moved", scratch / "back")
    same("what came back", (scratch / "back" / "sub" / "big").read_bytes(), (tree / "sub" / "big").read_bytes())
    same("wc", programs.sh("cat moved/file-* | wc -l; sort -r moved/file-* | head -1; grep -l 'of 9' moved/file-*").split("\n")[:2], ["18", "content of 9"])
    same("sed", programs.sh("sed -i s/content/text/ moved/file-05; cat moved/file-05"), "text of 5\n")
    programs.sh("printf 'Týr\\nwide\\n' >one; LC_ALL=C.UTF-8 rev one >two; grep -qx rýT two; LC_ALL=C.UTF-8 rev <two | cmp - one; rm one two")
    programs.run("tar", "-C", scratch, "-cf", f"{PREFIX}/archive.tar", "tree")
    programs.sh("mkdir unpacked; tar -xf archive.tar -C unpacked; diff -r unpacked/tree/sub moved/sub && exit 1; cmp unpacked/tree/sub/big moved/sub/big")
    for removed in ("rm -rf deep", "find deep -delete"):
        programs.sh(f"mkdir -p deep/a/b/c/d/e/f; touch deep/f1 deep/a/b/f2 deep/z; {removed}; test ! -e deep")
    programs.sh("rm -r moved unpacked hard archive.tar; test -z \"$(ls)\" || ls | grep -qx calls")


ROOTED = """
import os, sys
prefix = sys.argv[1]
root = os.open("/", os.O_RDONLY)
os.mkdir(prefix[1:] + "/rooted", dir_fd=root)
file = os.open(prefix[1:] + "/rooted/file", os.O_CREAT | os.O_WRONLY, dir_fd=root)
os.write(file, b"content")
assert open(prefix + "/rooted/file").read() == "content"
assert os.listdir(prefix + "/rooted") == ["file"] and os.stat("bin/sh", dir_fd=root)
try:
    os.stat(prefix[1:] + "/missing", dir_fd=root)
except FileNotFoundError:
    print("good")
"""


def rooted(programs, scratch):
    """Paths from a descriptor of the kernel's root, which has no such directory."""
    same("rooted", programs.run("python3", "-c", ROOTED, PREFIX).decode(), "good\n")


def shells(programs, scratch):
    """Redirections, which the programs that are started inherit, and the working directory."""
    for shell in ("sh", "bash"):
        told = programs.sh(
            "echo one >text; echo two >>text; cat <text; wc -l <text; printf '%s\\n' three | tee -a text >/dev/null; "
            "exec 7>>text; echo four >&7; exec 7>&-; tail -n 1 text; mkdir -p sub && cd sub && echo below >file && /bin/cat file && /bin/pwd; "
            "cat <<END >here\nfrom here\nEND\ncat here; cd /; test -e /bin/sh; rm -r " + PREFIX + "/sub " + PREFIX + "/text",
            shell,
        )
        same(shell, told.split("\n"), ["one", "two", "2", "four", "below", PREFIX + "/sub", "from here", ""])


PYTHON = """
import ctypes, fcntl, mmap, os, shutil, subprocess, sys, tempfile, threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
here = Path(sys.argv[1]) / "python"
shutil.rmtree(here, ignore_errors=True)
here.mkdir()
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
with open(here / "text", "w") as file:
    for number in range(1000):
        file.write(f"line {number}\\n")
assert (here / "text").read_text().splitlines()[999] == "line 999"
with open(here / "text", "r+b") as file:
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as mapped:
        assert mapped[:6] == b"line 0"
    try:
        mmap.mmap(file.fileno(), 0)
        raise AssertionError("a shared mapping")
    except OSError as error:
        assert error.errno == 19, error
    # One that is shared and only read stays that.
    for access in (0, mmap.PROT_READ):
        at = libc.mmap(None, 8192, access, mmap.MAP_SHARED, file.fileno(), 0)
        assert libc.mprotect(at, 4096, mmap.PROT_READ | mmap.PROT_WRITE) == -1 and ctypes.get_errno() == 13
        assert libc.mprotect(at, 8192, mmap.PROT_READ) == 0
        assert ctypes.string_at(at, 8192) == Path(here / "text").read_bytes()[:8192]
        assert libc.munmap(at, 8192) == 0
    fcntl.lockf(file, fcntl.LOCK_EX)
    told = subprocess.run([sys.executable, "-c", '''
import fcntl, sys
try:
    fcntl.lockf(open(sys.argv[1], "r+b"), fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    print("locked")
''', str(here / "text")], capture_output=True, text=True, check=True)
    assert told.stdout == "locked\\n", told
with tempfile.TemporaryDirectory(dir=here) as directory:
    assert os.listdir(directory) == []
assert os.path.realpath(here / ".." / "python") == str(here)
with open(here / "out", "w") as out:
    subprocess.run(["echo", "from a child"], stdout=out, check=True, cwd=here)
    out.write("from the parent\\n")
assert (here / "out").read_text() == "from a child\\nfrom the parent\\n"
os.chdir(here)
assert os.getcwd() == str(here) and sorted(os.listdir()) == ["out", "text"]
# Threads, each with files of its own, and all of them with one.
log = os.open("log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
def work(number):
    for turn in range(10):
        name = f"own-{number}-{turn}"
        with open(name, "wb") as file:
            file.write(bytes([number]) * 5000)
        assert Path(name).read_bytes() == bytes([number]) * 5000
        os.write(log, f"{number} {turn}\\n".encode())
        os.unlink(name)
with ThreadPoolExecutor(8) as pool:
    list(pool.map(work, range(8)))
assert sorted(Path("log").read_text().splitlines()) == sorted(f"{n} {t}" for n in range(8) for t in range(10))
def child():
    with open("log", "a") as file:
        file.write("forked\\n")
process = os.fork()
if process == 0:
    child()
    os._exit(0)
assert os.waitpid(process, 0)[1] == 0
assert Path("log").read_text().endswith("forked\\n")
"""


def python(programs, scratch):
    """Python: buffered files, mappings, locks, threads, forks, programs that are started."""
    programs.run("/usr/bin/python3", "-c", PYTHON, PREFIX)


def databases(programs, scratch):
    """sqlite3: locks, journals, fsync; two processes at once."""
    database = f"{PREFIX}/base.db"
    programs.run("sqlite3", database, "create table t(a integer primary key, b text)")
    rows = ";".join(f"insert into t(b) values('row {number}')" for number in range(200))
    programs.run("sqlite3", database, f"begin; {rows}; commit; create index i on t(b)")
    many = [
        subprocess.Popen(["env", f"LD_PRELOAD={programs.environment['LD_PRELOAD']}", f"TYR_MOUNT={programs.environment['TYR_MOUNT']}",
                          "sqlite3", "-cmd", ".timeout 60000", database, ";".join(f"insert into t(b) values('{who} {number}')" for number in range(5))],
                         stderr=subprocess.PIPE, text=True)
        for who in ("one", "two")
    ]
    for process in many:
        _, told = process.communicate(timeout=120)
        same("sqlite3", (process.returncode, told), (0, ""))
    same("rows", programs.run("sqlite3", database, "select count(*) from t; pragma integrity_check"), b"210\nok\n")
    # In this mode a database is for one process, which says so before anything else.
    exclusive = "pragma locking_mode=exclusive; "
    same("wal", programs.run("sqlite3", database, "pragma journal_mode=wal"), b"wal\n")
    assert b"210" not in programs.run("sqlite3", database, "select count(*) from t", code=None)
    same("wal", programs.run("sqlite3", database, exclusive + "select count(*) from t"), b"exclusive\n210\n")
    same("delete", programs.run("sqlite3", database, exclusive + "pragma journal_mode=delete"), b"exclusive\ndelete\n")
    same("rows", programs.run("sqlite3", database, "select count(*) from t; pragma integrity_check"), b"210\nok\n")
    programs.run("cp", database, scratch / "base.db")
    same("the copy", sqlite3.connect(scratch / "base.db").execute("select count(*) from t").fetchone(), (210,))


def processes(programs, scratch):
    """MPI: several ranks write their parts of one file."""
    if not shutil.which("mpicc") or not shutil.which("mpiexec"):
        return print("   no mpich here")
    program = scratch / "ranks"
    subprocess.run(["mpicc", "-w", "-O1", str(HERE / "ranks.c"), "-o", str(program)], check=True)
    launched = ["mpiexec", "-n", "4", "-genv", "LD_PRELOAD", programs.environment["LD_PRELOAD"], "-genv", "TYR_MOUNT", programs.environment["TYR_MOUNT"],
                str(program), f"{PREFIX}/ranks"]
    done = subprocess.run(launched, capture_output=True, text=True, timeout=120)
    same("mpiexec", (done.returncode, done.stdout), (0, "4 ranks agree\n"))
    expected = b"".join(bytes([ord("a") + block % 4]) * 1000 for block in range(96))
    same("what the ranks wrote", programs.run("cat", f"{PREFIX}/ranks"), expected)


def report(programs, scratch):
    """The report at exit."""
    place = scratch / "report"
    programs.run("cp", f"{PREFIX}/base.db", f"{PREFIX}/copy.db", TYR_PRELOAD_REPORT=str(place))
    lines = {line.split()[0]: line.split()[1:] for line in place.read_text().splitlines()[2:]}
    size = int(programs.run("stat", "-c", "%s", f"{PREFIX}/copy.db"))
    moved = [sum(int(cells[column]) for cells in lines.values()) for column in (3, 4)]
    same("bytes in the report", moved, [size, size])
    assert int(lines["close"][1]) >= 2, lines
    # What programs close before they end is closed then, and where they are then is no matter.
    told = scratch / "told"
    programs.run("sh", "-c", f"cat {PREFIX}/copy.db 2>{told} >/dev/null", TYR_PRELOAD_REPORT="stderr")
    assert ", cat\n" in told.read_text(), told.read_text()
    programs.run("env", "-C", scratch, "TYR_PRELOAD_REPORT=beside", "/usr/bin/python3", "-c", f"import os; os.stat('{PREFIX}/copy.db'); os.chdir('/')")
    assert "stat" in (scratch / "beside").read_text()


def refusals(programs, scratch):
    """What cannot be is refused with the error that says so."""
    library = programs.environment["LD_PRELOAD"]
    done = subprocess.run(["env", f"LD_PRELOAD={library}", "TYR_MOUNT=nonsense", "ls", "/"], capture_output=True, text=True)
    same("nonsense", (done.returncode, done.stderr), (0, "tyr-preload: TYR_MOUNT: it says PREFIX=SOURCE\n"))
    source = programs.environment["TYR_MOUNT"].split("=", 1)[1]
    url = source.rsplit("/", 1)[0]
    # Where a prefix is known nothing below it comes to the disk, although that has such a directory.
    local = scratch / "local"
    local.mkdir()
    missing = "the file system in keyspace 'none': there is no such keyspace; the option 'create' of TYR_MOUNT has it made (ENOENT)"
    for wrong, reason in (
        (f"{url}/files,fast", "TYR_MOUNT: 'fast' is no option"),
        (url, "TYR_MOUNT: the source names a keyspace"),
        ("", "TYR_MOUNT: the source names a keyspace"),
        (f"{url}/none", f"cannot open {missing}"),
        (f"{url}/none,flat", f"cannot open {missing}"),
    ):
        for command in (["touch", f"{local}/new"], ["ls", local], ["mkdir", f"{local}/new"], ["sh", "-c", f"echo x >{local}/new"]):
            done = subprocess.run(["env", f"LD_PRELOAD={library}", f"TYR_MOUNT={local}={wrong}", *command], capture_output=True, text=True)
            assert done.returncode != 0 and f"tyr-preload: {reason}\n" in done.stderr, (wrong, command, done)
            # Shells have words of their own for what cannot be made.
            assert command[0] == "sh" or "Input/output error" in done.stderr, (wrong, command, done)
    same("what came to the disk", os.listdir(local), [])
    done = subprocess.run(["env", f"LD_PRELOAD={library}", f"TYR_MOUNT={PREFIX}=tyr://127.0.0.1:1/files", "cat", f"{PREFIX}/x"], capture_output=True, text=True)
    assert done.returncode == 1 and "cannot open 'tyr://127.0.0.1:1'" in done.stderr, done
    read_only = Programs(library, source.replace(",create", ",ro"), scratch)
    same("ro", read_only.run("cat", f"{PREFIX}/log.txt"), b"here\n")
    for command in (["rm", "-f", f"{PREFIX}/log.txt"], ["touch", f"{PREFIX}/log.txt"], ["mkdir", f"{PREFIX}/new"], ["cp", "/etc/hostname", f"{PREFIX}/new"]):
        done = subprocess.run(["env", *(f"{name}={read_only.environment[name]}" for name in ("LD_PRELOAD", "TYR_MOUNT")), *command], capture_output=True, text=True)
        assert done.returncode == 1 and "Read-only file system" in done.stderr, (command, done)


REFUSED = """
def refused(number, work):
    try:
        work()
    except OSError as error:
        assert error.errno == number, error
    else:
        raise AssertionError("is not refused")
"""

FLAGS = REFUSED + """
import errno, os, sys
place = sys.argv[1]
os.makedirs(place + "/flags", exist_ok=True)
open(place + "/flags/file", "w").close()
for name in ("file", "missing", "."):
    refused(errno.EINVAL, lambda: os.open(f"{place}/flags/{name}", os.O_DIRECTORY | os.O_CREAT))
refused(errno.ENOENT, lambda: os.open(place + "/flags/missing", os.O_DIRECTORY | os.O_CREAT | os.O_PATH))
assert os.listdir(place + "/flags") == ["file"]
"""


def flags(programs, scratch):
    """Flags of open that only newer kernels refuse."""
    programs.run("/usr/bin/python3", "-c", FLAGS, PREFIX)


def directories(programs, scratch):
    """A store in a directory: one process at a time."""
    library = programs.environment["LD_PRELOAD"]
    alone = Programs(library, "files,create", scratch)
    os.environ["TYR_STORE"] = str(scratch / "store")
    try:
        alone.run("cp", "/etc/passwd", f"{PREFIX}/copy")
        same("a directory", alone.run("cat", f"{PREFIX}/copy"), Path("/etc/passwd").read_bytes())
        holding = "import os, subprocess, sys; open(sys.argv[1]).read(); print(subprocess.run(['cat', sys.argv[1]], capture_output=True, text=True).stderr)"
        told = alone.run("/usr/bin/python3", "-c", holding, f"{PREFIX}/copy").decode()
        assert "Device or resource busy" in told, told
    finally:
        del os.environ["TYR_STORE"]


def flat(programs, scratch):
    """A flat keyspace, with the command beside it."""
    tyr, source = programs.tyr, programs.environment["TYR_MOUNT"].split("=", 1)[1]
    url = source.rsplit("/", 1)[0]
    others = Programs(programs.environment["LD_PRELOAD"], f"{url}/flat,create,flat", scratch)
    others.run("/usr/bin/python3", "-c", FLAT, PREFIX)
    told = subprocess.run([tyr, "--store", url, "blob", "ls", "flat"], capture_output=True, text=True, check=True)
    same("keys", told.stdout.split(), ["deep/in/no/directory", "log"])
    told = subprocess.run([tyr, "--store", url, "fs", "--flat", "ls", "flat/deep/in"], capture_output=True, text=True, check=True)
    same("tyr fs --flat", told.stdout, "no/\n")
    same("cat", others.run("cat", f"{PREFIX}/deep/in/no/directory"), b"content")
    others.sh("ls -l deep/in/no | grep -q directory; find . -type f | sort | tail -n 1 | grep -qx ./log; cp log copy; mv copy other; cmp log other; rm -r deep log other")
    told = subprocess.run([tyr, "--store", url, "blob", "ls", "flat"], capture_output=True, text=True, check=True)
    same("keys", told.stdout, "")


FLAT = """
import os, sys
here = sys.argv[1]
with open(f"{here}/deep/in/no/directory", "w") as file:
    file.write("content")
assert os.path.isdir(f"{here}/deep/in") and os.listdir(f"{here}/deep/in/no") == ["directory"]
log = os.open(f"{here}/log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
for number in range(10):
    os.write(log, f"{number}\\n".encode())
assert os.fstat(log).st_size == 20
os.makedirs(f"{here}/empty/inner")
assert os.listdir(f"{here}/empty") == ["inner"]
os.removedirs(f"{here}/empty/inner")
for call, number in [(lambda: os.symlink("log", f"{here}/soft"), 1), (lambda: os.rename(f"{here}/deep", f"{here}/x"), 18)]:
    try:
        call()
        raise AssertionError("is not refused")
    except OSError as error:
        assert error.errno == number, error
"""


SHARED = """
import os, sys, threading
place, lines = sys.argv[1], range(25)
def write(descriptor, who):
    for number in lines:
        os.write(descriptor, b"%d line %02d\\n" % (who, number))
def forked(work):
    children = []
    for who in range(4):
        child = os.fork()
        if child == 0:
            work(who)
            os._exit(0)
        children.append(child)
    assert all(os.waitpid(child, 0)[1] == 0 for child in children)
expected = sorted(f"{who} line {number:02}" for who in range(4) for number in lines)
shared = os.open(place, os.O_CREAT | os.O_TRUNC | os.O_RDWR)
forked(lambda who: write(shared, who))
assert sorted(open(place).read().splitlines()) == expected
assert os.lseek(shared, 0, os.SEEK_CUR) == 1000
# Each reads what nobody else does.
os.lseek(shared, 0, os.SEEK_SET)
reading, writing = os.pipe()
def read(who):
    while part := os.read(shared, 10):
        os.write(writing, part)
forked(read)
os.close(writing)
assert sorted(open(reading).read().splitlines()) == expected
# Both standard descriptors are one, as the shell has made them.
threads = [threading.Thread(target=write, args=(who, who)) for who in (1, 2)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""


def shared(programs, scratch):
    """Processes that share a descriptor share its offset."""
    loops = " & ".join("for i in $(seq 40); do echo $$ %s $i; done" % who for who in "ab")
    lines = programs.sh("{ " + loops + " & wait; } >two; sort -u two | wc -l; sort two | wc -l", "bash")
    same("two loops", lines.split(), ["80", "80"])
    script = f"python3 -c '{SHARED}' {PREFIX}/lines >both 2>&1; sort -u both | wc -l; wc -c <both"
    same("threads", programs.sh(script).split(), ["50", "500"])


WHOLE_LOCKS = REFUSED + """
import errno, fcntl, os, struct, sys
def forked(work):
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException as error:
            os.write(2, repr(error).encode())
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
exclusive = fcntl.LOCK_EX | fcntl.LOCK_NB
own = os.open(sys.argv[1], os.O_CREAT | os.O_RDWR)
fcntl.flock(own, exclusive)
of_range = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
def child():
    # Nobody else may have it, and whose it is cannot be said by the child.
    refused(errno.EAGAIN, lambda: fcntl.flock(os.open(sys.argv[1], os.O_RDWR), exclusive))
    for operation in (exclusive, fcntl.LOCK_SH, fcntl.LOCK_UN):
        refused(errno.ENOLCK, lambda: fcntl.flock(own, operation))
    for command in (fcntl.F_OFD_SETLK, fcntl.F_OFD_GETLK):
        refused(errno.ENOLCK, lambda: fcntl.fcntl(own, command, of_range))
    fcntl.lockf(own, exclusive)
    os.close(own)
forked(child)
# It is the parent's still.
forked(lambda: refused(errno.EAGAIN, lambda: fcntl.flock(os.open(sys.argv[1], os.O_RDWR), exclusive)))
fcntl.flock(own, fcntl.LOCK_UN)
forked(lambda: fcntl.flock(os.open(sys.argv[1], os.O_RDWR), exclusive))
"""


def whole_locks(programs, scratch):
    """Locks of descriptors that were inherited are refused rather than lost."""
    programs.run("/usr/bin/python3", "-c", WHOLE_LOCKS, f"{PREFIX}/whole")
    told = programs.sh("exec 9>lock; flock -n 9 2>&1 || :; flock -n lock -c 'echo taken'")
    same("flock", told, "flock: 9: No locks available\ntaken\n")


NAMED = """
import os, stat, sys
place, there = sys.argv[1], sys.argv[2]
number = os.open(place + "/a", os.O_RDONLY)
for directory in ("/dev/fd", "/proc/self/fd", f"/proc/{os.getpid()}/fd", "/proc/thread-self/fd", f"/proc/self/task/{os.getpid()}/fd", "//proc/./self/fd/"):
    name = f"{directory}/{number}"
    assert open(name).read() == "1\\n2\\n", name
    assert os.path.samestat(os.stat(name), os.fstat(number)), name
    assert os.access(name, os.R_OK) and stat.S_ISLNK(os.lstat(name).st_mode), name
    assert os.readlink(name) == place + "/a", name
assert os.path.realpath(f"/dev/fd/{number}") == place + "/a"
descriptors = os.open("/proc/self/fd", os.O_RDONLY)
assert os.read(os.open(str(number), os.O_RDONLY, dir_fd=descriptors), 9) == b"1\\n2\\n"
assert os.stat(str(number), dir_fd=descriptors).st_ino == os.fstat(number).st_ino
os.chdir("/proc/self/fd")
assert open(str(number)).read() == "1\\n2\\n"
directory = os.open(place, os.O_RDONLY)
assert open(f"/proc/self/fd/{directory}/a").read() == "1\\n2\\n"
usual = os.open(there, os.O_RDONLY)
assert open(f"/dev/fd/{usual}").read() == "x\\n" and os.readlink(f"/dev/fd/{usual}") == there
"""


def named(programs, scratch):
    """Descriptors that are named by a path are the files, to every call."""
    (scratch / "other").write_text("x\n")
    programs.sh("printf '1\\n2\\n' >a")
    programs.run("/usr/bin/python3", "-c", NAMED, PREFIX, scratch / "other")
    same("paste", programs.sh("paste /dev/stdin <a"), "1\n2\n")
    same("comm", programs.sh(f"comm /dev/stdin {scratch}/other <a"), "1\n2\n\tx\n")
    programs.sh(f"cp /dev/stdin {scratch}/named <a; cat a >/dev/stdout; test -f /dev/stdin <a")
    same("cp", (scratch / "named").read_text(), "1\n2\n")


def closed(programs, scratch):
    """The stream of a standard descriptor that was closed is used no more."""
    program = compile_c("processes", scratch)
    same("closed", programs.sh(f"echo content >a; {program} closed a <a"), "0 5 conte\n")


STARTED = """
import os, subprocess, sys
place = sys.argv[1]
def told(**options):
    return subprocess.run(["/bin/pwd"], capture_output=True, text=True, check=True, **options).stdout.strip()
for name in ("a", "b", "c"):
    os.makedirs(f"{place}/started/{name}", exist_ok=True)
assert told(cwd=place + "/started/c") == place + "/started/c"
os.chdir(place + "/started/a")
assert (told(), told(cwd="/tmp"), told(cwd="../c")) == (place + "/started/a", "/tmp", place + "/started/c")
os.chdir(place + "/started/b")
assert told(cwd=place + "/started/c") == place + "/started/c"
assert told() == os.getcwd() == place + "/started/b"
shell = 'cd /; cd "$1/c"; cd /tmp; cd "$1/a"; /bin/pwd; cd /; /bin/pwd'
done = subprocess.run(["sh", "-c", shell, "sh", place + "/started"], capture_output=True, text=True, cwd=place)
assert done.stdout.split() == [place + "/started/a", "/"], done
os.chdir("/tmp")
assert told() == "/tmp"
"""


def started(programs, scratch):
    """Programs that are started with a working directory of their own."""
    programs.run("/usr/bin/python3", "-c", STARTED, PREFIX)


def replaced(programs, scratch):
    """Programs that become other ones, or would if those were there."""
    program = compile_c("processes", scratch)
    refused = ["execv -1 ENOENT", "execv -1 EACCES", "execve -1 EACCES", "execvp -1 ENOENT", "execl -1 ENOENT", "execlp -1 ENOENT", "execle -1 ENOENT"]
    told = programs.sh(f"{program} missing locked")
    same("missing", told.splitlines(), ["lock 0", *refused, "pread 4 temp", "other -1"])
    for how, arguments in (("execl", "a  c d e f g None"), ("execlp", "a None"), ("execle", "a b c d given")):
        place = scratch / f"report-{how}"
        told = programs.run(program, how, f"{PREFIX}/locked", TYR_PRELOAD_REPORT=str(place)).decode()
        same(how, told, arguments + "\n")
        assert str(program) in place.read_text(), how


NUMBERS = """
import errno, os, sys
place = sys.argv[1]
os.stat(place)
usual, refused = os.open("/dev/null", os.O_RDWR), 0
for number in range(600, 640):
    try:
        os.dup2(usual, number)
    except OSError as error:
        assert error.errno == errno.EBADF, error
        refused += 1
assert 0 < refused < 40, refused
assert open(place).read() == "content\\n"
"""


def numbers(programs, scratch):
    """Descriptors of the library's own, and few of them."""
    programs.sh("echo content >a")
    programs.run("/usr/bin/python3", "-c", NUMBERS, f"{PREFIX}/a")
    for limit in (512, 64):
        told = programs.sh(f"mkdir -p few; ulimit -n {limit}; cd few; /bin/pwd; cat ../a; exec 5<../a; cat <&5")
        same(f"at most {limit}", told.split(), [f"{PREFIX}/few", "content", "content"])


def readers(programs, scratch):
    """Who may only read has what it inherits, too."""
    place = scratch / "guarded"
    place.mkdir()
    secret, token, url = place / "secret", place / "token", f"tyr://unix:{place}/socket"
    environment = {**os.environ, "TYR_STORE": url, "TYR_SECRET_FILE": str(secret)}

    def tyr(*command, check=True, **more):
        return subprocess.run([programs.tyr, *command], check=check, capture_output=True, env=environment, **more)

    tyr("secret", secret)
    options = ["--listen", f"unix:{place}/socket", "--secret-file", secret, "--partitions", "4", "--quiet", "--log", "error"]
    server = subprocess.Popen([programs.tyr, "server", "--directory", place / "node", *options])
    try:
        while tyr("keyspace", "create", "files", check=False).returncode != 0:
            if server.poll() is not None:
                raise Failed(f"the server ended: {server.returncode}")
        tyr("fs", "create", "files")
        tyr("fs", "put", "files/log", input=b"content\n")
        tyr("user", "create", "reader")
        tyr("grant", "reader", "read", "files")
        tyr("token", "create", "reader", "--output", token)
        reader = Programs(programs.environment["LD_PRELOAD"], "files", scratch)
        script = f"cd {PREFIX}; exec 9<log; cat <&9; cat <log; echo more 2>/dev/null >log || echo refused"
        same("cat", reader.run("sh", "-c", script, TYR_STORE=url, TYR_TOKEN_FILE=str(token)), b"content\ncontent\nrefused\n")
    finally:
        server.terminate()
        server.wait(timeout=60)


LINKED = """
import ctypes, os, sys
here = sys.argv[1]
libc = ctypes.CDLL(None)
libc.realpath.restype = ctypes.c_char_p
os.mkdir(here + "/data")
os.mkdir(here + "/other")
for name in ("data", "other"):
    with open(f"{here}/{name}/file", "w") as file:
        file.write(name)
os.symlink(here + "/data", here + "/absolute")
os.symlink("../other", here + "/upward")
for link, name in (("absolute", "data"), ("upward", "other")):
    place = f"{here}/{link}"
    assert open(place + "/file").read() == name
    assert os.path.samestat(os.stat(place), os.stat(f"{here}/{name}"))
    # That of Python takes links apart itself.
    assert libc.realpath(place.encode(), None) == f"{here}/{name}".encode() and os.listdir(place) == ["file"]
    with open(place + "/new", "w") as file:
        file.write("new")
    os.rename(place + "/new", place + "/moved")
    os.chdir(place)
    assert os.getcwd() == f"{here}/{name}" and sorted(os.listdir()) == ["file", "moved"]
    assert open("../upward/file").read() == "other"
os.symlink("/other/file", here + "/out")
assert libc.realpath((here + "/out").encode(), None) is None
for call in (os.stat, open, os.listdir):
    try:
        call(here + "/out")
        raise AssertionError(call)
    except FileNotFoundError:
        pass
"""


def linked(programs, scratch):
    """Links in a directory of a file system, of which nothing else is seen."""
    programs.sh("mkdir -p proj/inner other; echo outside >other/file")
    source = programs.environment["TYR_MOUNT"].split("=", 1)[1].removesuffix(",create")
    inner = Programs(programs.environment["LD_PRELOAD"], f"{source}/proj/inner", scratch)
    inner.run("/usr/bin/python3", "-c", LINKED, PREFIX)
    same("what is outside", programs.sh("cat other/file; ls other"), "outside\nfile\n")
    programs.sh("rm -r proj other")


TESTS = [flat, calls, requests, searches, coreutils, rooted, linked, shells, shared, whole_locks, named, closed, started, replaced, numbers, readers, python, databases, processes, report, flags, directories]


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--tyr", required=True)
    arguments.add_argument("--preload", required=True)
    arguments.add_argument("names", nargs="*")
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as scratch, cluster(options.tyr) as url:
        programs = Programs(options.preload, f"{url}/files,create", Path(scratch))
        programs.tyr = options.tyr
        for test in [*TESTS, refusals]:
            if options.names and test.__name__ not in options.names:
                continue
            print(f"-- {test.__doc__}", flush=True)
            if test is refusals:
                programs.sh("echo here >log.txt")
            test(programs, Path(scratch))


if __name__ == "__main__":
    try:
        main()
    except Failed as failed:
        sys.exit(f"{failed}")
