"""What programs see of files that were renamed and move to their names meanwhile."""

import json
import os
import subprocess
import time


def moves_to_names(here, there, lying):
    """What is written beside and renamed is what it was, from both mounts, while it moves and afterwards. `lying` tells which keys are there."""
    (here / "moves").mkdir()
    size = {number: 1000 * number + 1 for number in range(12)}

    def named(place, number):
        return place / "moves" / f"name-{number}"

    def content(number):
        return bytes([number]) * size[number]

    known, opened = [], {}
    for number in size:
        beside = here / "moves" / f"beside-{number}"
        named(here, number).write_bytes(b"what is replaced")
        beside.write_bytes(content(number))
        beside.chmod(0o640)
        # One that reads nothing is of no file that is open, and asks for what it was opened with by its number.
        known.append((number, os.open(beside, os.O_PATH)))
        beside.rename(named(here, number))
        known.append((number, os.open(named(there, number), os.O_PATH)))
        if number % 3 == 0:
            opened[number] = os.open(named((here, there)[number % 2], number), os.O_RDWR)
    inodes = {number: named(here, number).stat().st_ino for number in size}

    def agree():
        for number, descriptor in known:
            for told in (os.fstat(descriptor), *(named(place, number).stat() for place in (here, there))):
                assert (told.st_ino, told.st_size, told.st_mode & 0o777) == (inodes[number], size[number], 0o640), (number, told)
        for number, descriptor in opened.items():
            assert os.pread(descriptor, size[number] + 1, 0) == content(number), number

    def until_moved(numbers):
        """Asks all the while, without opening anything, which would have it stay."""
        until = time.monotonic() + 120
        while left := {f"/moves/beside-{number}" for number in numbers} & lying():
            assert time.monotonic() < until, left
            agree()
        agree()

    until_moved(set(size) - set(opened))
    assert {f"/moves/beside-{number}" for number in opened} <= lying(), "what is open has moved"
    for number, descriptor in opened.items():
        size[number] += 5
        os.pwrite(descriptor, bytes([number]) * 5, size[number] - 5)
        os.fsync(descriptor)
    agree()
    for number in list(opened):
        os.close(opened.pop(number))
    until_moved(size)
    for number, descriptor in known:
        assert all(named(place, number).read_bytes() == content(number) for place in (here, there)), number
        os.close(descriptor)
    # The places where they lay are free.
    for number in size:
        (there / "moves" / f"beside-{number}").write_bytes(b"another")
        assert (here / "moves" / f"beside-{number}").read_bytes() == b"another"
        assert named(here, number).read_bytes() == content(number)


def keys_below(tyr, url, prefix):
    """The keys of a keyspace of a cluster that begin with a prefix."""
    listed = subprocess.run([tyr, "--store", url, "--json", "blob", "ls", f"files/{prefix}"], check=True, capture_output=True)
    return {blob["key"] for blob in json.loads(listed.stdout)["blobs"]}
