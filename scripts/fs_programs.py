"""Programs from Debian that use a mounted file system, each checked by what it says itself or beside the local file system.

Each is a function of an empty directory on the mount and of one on the local file system. They are called by fs_test.py.
"""

import filecmp
import hashlib
import os
import random
import re
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path


def run(*command, **named):
    """Runs a program; what it said is shown if it fails."""
    ended = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **named)
    assert ended.returncode == 0, f"{command}: {ended.returncode}\n{ended.stdout[-4000:]}"
    return ended.stdout


def make_tree(tree):
    """Files of many sizes, links, a sparse one, odd names, modes, and times."""
    generator = random.Random(7)
    for number in range(400):
        place = tree / f"d{number % 7}" / f"e{number % 3}"
        place.mkdir(parents=True, exist_ok=True)
        path = place / f"file {number}"
        path.write_bytes(generator.randbytes(generator.choice([0, 1, 100, 4096, 70_000, 300_000])))
        path.chmod(generator.choice([0o644, 0o600, 0o755, 0o444]))
        os.utime(path, ns=(10**18, 10**18 + number * 1_000_000_007))
    (tree / "links").mkdir()
    os.link(tree / "d0" / "e0" / "file 0", tree / "links" / "hard")
    os.symlink("../d1", tree / "links" / "soft")
    os.symlink("nowhere", tree / "links" / "dangling")
    os.mkfifo(tree / "links" / "pipe")
    os.mkdir(os.fsencode(tree) + b"/\xffname\n")
    with open(tree / "sparse", "wb") as file:
        file.truncate(5_000_000)
        file.seek(3_000_000)
        file.write(b"middle")
    setgid = tree / "setgid"
    setgid.mkdir()
    setgid.chmod(0o2775)


def pack(tree, archive):
    """An archive that is the same byte for byte if the trees are, but for times of access and change."""
    run("tar", "--sort=name", "--format=posix", "--pax-option=delete=atime,delete=ctime", "-C", tree, "-cf", archive, ".")
    return hashlib.sha256(archive.read_bytes()).hexdigest()


def archives(here, local):
    """tar and rsync bring a tree there and back."""
    make_tree(local / "tree")
    before = pack(local / "tree", local / "before.tar")
    (here / "tar").mkdir()
    run("tar", "-C", here / "tar", "-xpf", local / "before.tar")
    assert pack(here / "tar", local / "after.tar") == before
    rsync = ("rsync", "-aHS", "--numeric-ids")
    run(*rsync, f"{local}/tree/", f"{here}/rsync/")
    run(*rsync, f"{here}/rsync/", f"{local}/back/")
    assert pack(here / "rsync", local / "there.tar") == before
    assert pack(local / "back", local / "back.tar") == before
    assert not run(*rsync, "--checksum", "--itemize-changes", "--dry-run", "--delete", f"{local}/tree/", f"{here}/rsync/")
    # A second time, with changes, over what is there.
    (local / "tree" / "d1" / "e1" / "file 1").write_bytes(b"changed")
    shutil.rmtree(local / "tree" / "d2")
    run(*rsync, "--delete", f"{local}/tree/", f"{here}/rsync/")
    # rsync itself leaves the uppermost one a little younger.
    for top in (here / "rsync", local / "tree"):
        os.utime(top, ns=(10**18, 10**18))
    assert pack(here / "rsync", local / "there.tar") == pack(local / "tree", local / "changed.tar")


def fio(here, _local):
    """fio writes with several processes, each in its way, and verifies every block."""
    common = ["fio", f"--directory={here}", "--verify=crc32c", "--do_verify=1", "--verify_fatal=1", "--numjobs=3", "--size=4m", "--group_reporting"]
    for name, *options in [
        ("sequential", "--rw=write", "--bs=1m", "--ioengine=psync"),
        ("random", "--rw=randwrite", "--bs=4k", "--ioengine=psync"),
        ("mixed", "--rw=randrw", "--bsrange=512-256k", "--bs_unaligned=1", "--ioengine=psync"),
        ("synchronous", "--rw=randwrite", "--bs=16k", "--ioengine=psync", "--fsync=8", "--size=1m"),
        ("direct", "--rw=randwrite", "--bs=64k", "--ioengine=libaio", "--iodepth=8", "--direct=1"),
        ("mapped", "--rw=randwrite", "--bs=4k", "--ioengine=mmap", "--size=2m"),
        ("vectors", "--rw=randwrite", "--bs=8k", "--ioengine=pvsync2"),
        ("splice", "--rw=write", "--bs=64k", "--ioengine=splice"),
    ]:
        said = run(*common, f"--name={name}", *options, cwd=here)
        assert "err= 0" in said and "verify:" not in said, said
        for path in here.glob(f"{name}.*"):
            path.unlink()


def dbench(here, _local):
    """The calls of an office's file server, by several clients."""
    said = run("dbench", "-c", "/usr/share/dbench/client.txt", "-t", "10", "-D", here, "4")
    assert re.search(r"^Throughput [\d.]+ MB/sec", said, re.M), said
    # Lines that begin with its number are calls that did not end as the load says.
    assert not re.search(r"^\[\d+\] .*(fail|expected)", said, re.M), said


def postmark(here, _local):
    """A mail server's small files: made, read, appended to, deleted."""
    orders = f"set location {here}\nset number 300\nset transactions 3000\nset size 500 20000\nset subdirectories 5\nrun\nquit\n"
    said = run("postmark", input=orders)
    found = re.search(r"(\d+) deleted \(", said)
    assert found and int(found[1]) > 1000 and "rror" not in said, said
    assert not list(here.iterdir())


def apt_source(package, into):
    """The source of a Debian package, unpacked; None where no archive with sources can be reached."""
    lists = into / "lists"
    (lists / "partial").mkdir(parents=True)
    places = [Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("*")]
    named = re.compile(r"^(?:URIs:|deb(?: +\[[^]]*\])?)\s+(\S+/debian)/?(?:\s|$)", re.M)
    uris = [uri for place in places if place.is_file() for uri in named.findall(place.read_text())]
    release = re.search(r"^VERSION_CODENAME=(\w+)$", Path("/etc/os-release").read_text(), re.M)
    if not shutil.which("apt-get") or not release or not uris:
        return None
    key = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
    said = f"Types: deb-src\nURIs: {uris[0]}\nSuites: {release[1]}\nComponents: main\nSigned-By: {key}\n"
    (into / "source.sources").write_text(said)
    options = [f"-oDir::Etc::sourcelist={into}/source.sources", "-oDir::Etc::sourceparts=-", f"-oDir::State::lists={lists}", "-oAPT::Sandbox::User=root"]
    for orders in (["update"], ["source", "--download-only", package]):
        if subprocess.run(["apt-get", "-qq", *options, *orders], cwd=into, capture_output=True).returncode:
            return None
    archive = next(into.glob(f"{package}_*.orig.tar.*"))
    (into / package).mkdir()
    run("tar", "-C", into / package, "--strip-components=1", "-xf", archive)
    return into / package


def build(here, local):
    """git takes in a real project and clones it; the clone is built, and its own tests run."""
    (local / "apt").mkdir()
    source = apt_source("zlib", local / "apt")
    if not source:
        print("no Debian archive with sources can be reached: nothing is built on a mount")
        return
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main", "-c", "safe.directory=*"]
    shutil.copytree(source, here / "origin", symlinks=True)
    run(*git, "init", "-q", here / "origin")
    run(*git, "-C", here / "origin", "add", "-A", "-f")
    run(*git, "-C", here / "origin", "commit", "-qm", "all")
    run(*git, "clone", "-q", "--no-hardlinks", here / "origin", here / "clone")
    run(*git, "-C", here / "clone", "fsck", "--strict")
    run(*git, "-C", here / "clone", "gc", "-q")
    assert not run(*git, "-C", here / "clone", "status", "--porcelain")
    run("sh", "./configure", cwd=here / "clone")
    assert "*** zlib test OK ***" in run("make", "-j2", "test", cwd=here / "clone")
    assert run(*git, "-C", here / "clone", "checkout", "-q", "--", ".") == ""
    local_build = local / "build"
    shutil.copytree(source, local_build, symlinks=True)
    run("sh", "./configure", cwd=local_build)
    run("make", "-j2", cwd=local_build)
    assert filecmp.cmp(local_build / "inflate.o", here / "clone" / "inflate.o", shallow=False)


COUNTER = """
import sqlite3, sys
base = sqlite3.connect(sys.argv[1], timeout=120, isolation_level=None)
for _ in range(int(sys.argv[2])):
    base.execute("begin immediate")
    base.execute("update counter set n = n + 1")
    base.execute("insert into log (who, text) values (?, ?)", (sys.argv[3], "x" * 3000))
    base.execute("commit")
"""


def sqlite(here, _local):
    """Processes that change one SQLite database, in both of its ways to commit."""
    for mode in ("delete", "wal"):
        path = here / f"{mode}.sqlite"
        base = sqlite3.connect(path, isolation_level=None)
        assert base.execute(f"pragma journal_mode={mode}").fetchone() == (mode,)
        base.execute("create table counter (n integer)")
        base.execute("create table log (who text, text text)")
        base.execute("insert into counter values (0)")
        children = [subprocess.Popen([sys.executable, "-c", COUNTER, path, "25", name]) for name in "abcd"]
        assert all(child.wait(timeout=300) == 0 for child in children)
        assert base.execute("select n from counter").fetchone() == (100,)
        assert base.execute("select who, count(*) from log group by who").fetchall() == [(name, 25) for name in "abcd"]
        base.execute("delete from log")
        base.execute("vacuum")
        assert base.execute("pragma integrity_check").fetchone() == ("ok",)
        base.close()


def blast(here, local):
    """BLAST searches a database on the mount, and finds what it finds in one beside it."""
    generator = random.Random(11)
    genomes = ["".join(generator.choices("ACGT", k=3000)) for _ in range(300)]
    queries = []
    for number in range(0, 300, 10):
        piece = list(genomes[number][500:900])
        for place in generator.sample(range(400), 12):
            piece[place] = generator.choice("ACGT")
        queries.append("".join(piece))
    found = []
    for place in (here, local):
        (place / "genomes.fasta").write_text("".join(f">g{number}\n{genome}\n" for number, genome in enumerate(genomes)))
        (place / "queries.fasta").write_text("".join(f">q{number}\n{query}\n" for number, query in enumerate(queries)))
        run("makeblastdb", "-in", "genomes.fasta", "-dbtype", "nucl", "-parse_seqids", "-out", "base", cwd=place)
        run("blastn", "-query", "queries.fasta", "-db", "base", "-outfmt", "6", "-num_threads", "2", "-out", "found", cwd=place)
        found.append((place / "found").read_text())
    assert found[0] == found[1] and len(found[0].splitlines()) >= len(queries)


def tachyon(here, local):
    """Tachyon renders a picture onto the mount, the same as beside it."""
    generator = random.Random(5)
    scene = ["begin_scene", "resolution 400 300", "camera", "  zoom 1.0", "  aspectratio 1.0", "  antialiasing 1", "  raydepth 4"]
    scene += ["  center 0 0 -6", "  viewdir 0 0 1", "  updir 0 1 0", "end_camera", "light center -5 5 -5 rad 0.2 color 1 1 1"]
    for _ in range(80):
        x, y, z = (generator.uniform(-2, 2) for _ in range(3))
        red, green, blue = (generator.random() for _ in range(3))
        scene.append(f"sphere center {x:.3f} {y:.3f} {z:.3f} rad 0.3 texture ambient 0.1 diffuse 0.6 specular 0.3 opacity 1.0 color {red:.3f} {green:.3f} {blue:.3f} texfunc 0")
    scene.append("end_scene")
    for place in (here, local):
        (place / "scene.dat").write_text("\n".join(scene) + "\n")
        run("tachyon", "scene.dat", "-o", "picture.ppm", "-format", "PPM", "-numthreads", "2", cwd=place)
    assert filecmp.cmp(here / "picture.ppm", local / "picture.ppm", shallow=False)
    assert len(set((here / "picture.ppm").read_bytes())) > 50


MPI = r"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 3000, BLOCKS = 64 };

static void check(int code, const char *what) {
    if (code != MPI_SUCCESS) {
        char text[MPI_MAX_ERROR_STRING];
        int length;
        MPI_Error_string(code, text, &length);
        fprintf(stderr, "%s: %s\n", what, text);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static char byte_at(long offset) { return (char)(offset * 31 + offset / 251); }

int main(int argc, char **argv) {
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_File file;
    check(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file), "open");
    if (argc > 2)
        check(MPI_File_set_atomicity(file, 1), "atomicity");

    /* Each rank has every size-th block; all of them write at once. */
    MPI_Datatype comb;
    MPI_Type_vector(BLOCKS, BLOCK, BLOCK * size, MPI_CHAR, &comb);
    MPI_Type_commit(&comb);
    char *own = malloc(BLOCK * BLOCKS);
    for (long n = 0; n < BLOCK * BLOCKS; n++)
        own[n] = byte_at((n / BLOCK * size + rank) * BLOCK + n % BLOCK);
    check(MPI_File_set_view(file, (MPI_Offset)rank * BLOCK, MPI_CHAR, comb, "native", MPI_INFO_NULL), "view");
    check(MPI_File_write_all(file, own, BLOCK * BLOCKS, MPI_CHAR, MPI_STATUS_IGNORE), "write all");
    check(MPI_File_sync(file), "sync");
    MPI_Barrier(MPI_COMM_WORLD);

    /* Each reads all of it. */
    long whole = (long)BLOCK * BLOCKS * size;
    char *all = malloc(whole);
    check(MPI_File_set_view(file, 0, MPI_CHAR, MPI_CHAR, "native", MPI_INFO_NULL), "view of all");
    check(MPI_File_read_at_all(file, 0, all, whole, MPI_CHAR, MPI_STATUS_IGNORE), "read all");
    for (long n = 0; n < whole; n++)
        if (all[n] != byte_at(n)) {
            fprintf(stderr, "rank %d: byte %ld is wrong\n", rank, n);
            MPI_Abort(MPI_COMM_WORLD, 2);
        }
    MPI_Barrier(MPI_COMM_WORLD);

    /* Strided and alone: what lies between is read, changed, and written back under a lock. */
    check(MPI_File_set_view(file, (MPI_Offset)rank * BLOCK, MPI_CHAR, comb, "native", MPI_INFO_NULL), "view again");
    memset(own, 'a' + rank, BLOCK * BLOCKS);
    check(MPI_File_write(file, own, BLOCK * BLOCKS, MPI_CHAR, MPI_STATUS_IGNORE), "write");
    check(MPI_File_sync(file), "sync");
    MPI_Barrier(MPI_COMM_WORLD);
    check(MPI_File_set_view(file, 0, MPI_CHAR, MPI_CHAR, "native", MPI_INFO_NULL), "view of all");
    check(MPI_File_read_at(file, 0, all, whole, MPI_CHAR, MPI_STATUS_IGNORE), "read");
    for (long n = 0; n < whole; n++)
        if (all[n] != 'a' + n / BLOCK % size) {
            fprintf(stderr, "rank %d: byte %ld is of another rank\n", rank, n);
            MPI_Abort(MPI_COMM_WORLD, 3);
        }
    check(MPI_File_close(&file), "close");

    /* A pointer that all share: each record once. */
    char name[4096];
    snprintf(name, sizeof name, "%s.shared", argv[1]);
    check(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file), "open shared");
    for (int n = 0; n < 20; n++) {
        char record[33];
        snprintf(record, sizeof record, "%02d %02d %025d\n", rank, n, 0);
        check(MPI_File_write_shared(file, record, 32, MPI_CHAR, MPI_STATUS_IGNORE), "write shared");
    }
    check(MPI_File_close(&file), "close shared");
    MPI_Finalize();
    return 0;
}
"""


def mpi(here, local):
    """Ranks of an MPI program that write and read one file."""
    (local / "shared.c").write_text(MPI)
    run("mpicc", "-O1", "-Wall", "-Werror", "-o", local / "shared", local / "shared.c")
    for number, atomic in enumerate(([], ["atomic"])):
        name = here / f"file-{number}"
        run("mpirun", "-n", "4", local / "shared", name, *atomic, timeout=300)
        records = Path(f"{name}.shared").read_text().splitlines()
        assert sorted(record[:5] for record in records) == sorted(f"{rank:02} {n:02}" for rank in range(4) for n in range(20))


PJDFSTEST = """
[features]
posix_fallocate = {}
rename_ctime = {}
utime_now = {}
utimensat = {}
[settings]
naptime = 0.02
# Directories count one link.
expected_failures = ["rename::updates_link_parent"]
[dummy_auth]
entries = [["nobody", "nogroup"], ["daemon", "daemon"]]
"""


def posix(here, local):
    """pjdfstest: what POSIX says of each call that names a file, as root and as others."""
    if os.geteuid() != 0:
        return
    (local / "pjdfstest.toml").write_text(PJDFSTEST)
    said = run("pjdfstest", "-c", local / "pjdfstest.toml", "-p", here, timeout=900)
    summary = re.search(r"^Summary: 0 failed, (\d+) skipped, (\d+) passed, 1 expected failures", said, re.M)
    assert summary and int(summary[1]) < 20 and int(summary[2]) > 370, said[-4000:]


PROGRAMS = (archives, fio, dbench, postmark, build, sqlite, blast, tachyon, mpi, posix)
