"""Flat file systems through mounts: a file is what lies at its key, and a key is not two files."""

import errno
import mmap
import os
import subprocess

from fs_refusal import refuses


def keeps_flat_files_apart(here):
    """What has one name is one file, whatever had the name before, and whoever has that open still. Returns what is in the keyspace then."""
    assert not any(name for name in os.listdir(here) if not name.startswith("."))
    # What is published again and again, each time with fewer bytes.
    for content in (b"111111", b"22", b"3"):
        (here / "published.tmp").write_bytes(content)
        os.rename(here / "published.tmp", here / "published")
        assert (here / "published").read_bytes() == content
        refuses(errno.ENOENT, os.stat, here / "published.tmp")
    # A name that is taken again is another file than what had it.
    (here / "log").write_bytes(b"old")
    os.rename(here / "log", here / "log.1")
    (here / "log").write_bytes(b"new")
    assert ((here / "log.1").read_bytes(), (here / "log").read_bytes()) == (b"old", b"new")
    with open(here / "log.1", "ab") as older:
        older.write(b" and more")
    assert ((here / "log.1").read_bytes(), (here / "log").read_bytes()) == (b"old and more", b"new")
    os.truncate(here / "log.1", 2)
    assert ((here / "log.1").read_bytes(), (here / "log").read_bytes()) == (b"ol", b"new")
    # What was removed while it is open is gone for who has it open, and not what has the name now.
    kept = os.open(here / "made anew", os.O_CREAT | os.O_RDWR)
    os.write(kept, b"A" * 300_000)
    os.unlink(here / "made anew")
    anew = os.open(here / "made anew", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    os.write(anew, b"NEW")
    assert os.fstat(anew).st_size == 3
    for call, arguments in ((os.pread, (1, 0)), (os.pwrite, (b"old", 0)), (os.ftruncate, (0,)), (os.fchmod, (0,))):
        refuses(errno.ESTALE, call, kept, *arguments)
    os.close(anew)
    os.close(kept)
    assert (here / "made anew").read_bytes() == b"NEW"
    # What was written before it was renamed goes with it, also through a mapping.
    kept = os.open(here / "renamed.tmp", os.O_CREAT | os.O_RDWR)
    os.write(kept, b"r" * 10_000)
    with mmap.mmap(kept, 10_000) as mapped:
        mapped[:6] = b"mapped"
        os.rename(here / "renamed.tmp", here / "renamed")
    refuses(errno.ESTALE, os.write, kept, b"lost")
    os.fsync(kept)
    os.close(kept)
    assert (here / "renamed").read_bytes() == b"mapped" + b"r" * 9_994
    # As git does it: a lock file that becomes the file.
    subprocess.run(["git", "init", "-q", here / "repository"], check=True)
    config = here / "repository" / ".git" / "config"
    for name in ("one", "two"):
        subprocess.run(["git", "config", "-f", config, f"user.{name}", name * 100], check=True)
        subprocess.run(["git", "config", "-f", config, "--unset", f"user.{name}"], check=True)
    told = subprocess.run(["git", "config", "-f", config, "--list"], check=True, capture_output=True, text=True).stdout
    assert "core.repositoryformatversion=0" in told and "user." not in told, told
    return {
        "published": b"3",
        "log": b"new",
        "log.1": b"ol",
        "made anew": b"NEW",
        "renamed": b"mapped" + b"r" * 9_994,
        "repository/.git/config": config.read_bytes(),
    }


def flat_mounts_are_right(tyr, mount, store, directory, flags):
    """Mounts a flat keyspace with each of these flags, and checks what is in it after that without a mount."""
    for number, some in enumerate(flags):
        keyspace = f"flat-{number}"
        with mount(tyr, keyspace, directory, "--flat", "--create", *some, store=store) as here:
            expected = keeps_flat_files_apart(here)
        for key, content in expected.items():
            command = [tyr, "--store", str(store), "blob", "get", f"tyr:///{keyspace}/{key}"]
            told = subprocess.run(command, check=True, capture_output=True).stdout
            assert told == content, f"{key}: {told[:100]}"
    command = [tyr, "--store", str(store), "mount", "flat-0", directory, "--flat", "--entry-cache", "1"]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert refused.returncode == 2 and "without --entry-cache" in refused.stderr, refused
