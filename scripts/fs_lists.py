"""Access control lists of files, as programs and users of a machine meet them."""

import errno
import os
import struct

from fs_refusal import refuses


def access_list(*lines):
    """What Linux has in an extended attribute for lines of a tag, permissions, and a number."""
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *line) for line in lines)


def named(owner, named, mask):
    """The owner, user 1001 and group 1002, the mask; the group and others have nothing."""
    nobody = 0xFFFFFFFF
    return access_list((1, owner, nobody), (2, named, 1001), (4, 0, nobody), (8, named, 1002), (16, mask, nobody), (32, 0, nobody))


def may(uid, gid, call):
    """Whether a user may do something."""
    if (child := os.fork()) == 0:
        try:
            os.setgroups([])
            os.setgid(gid)
            os.setuid(uid)
            os.umask(0o077)
            call()
            os._exit(0)
        except PermissionError:
            os._exit(1)
        finally:
            os._exit(2)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, 1), "it failed in another way"
    return code == 0


def obeys_lists(here, there):
    """Access control lists, set at one place and obeyed at another one, as the local file system does it."""
    access, default = "system.posix_acl_access", "system.posix_acl_default"

    def reads(uid, gid, path):
        return may(uid, gid, path.read_bytes)

    def writes(uid, gid, path):
        return may(uid, gid, lambda: path.open("ab").close())

    def makes(uid, gid, path):
        return may(uid, gid, lambda: path.open("xb").close())

    (shared := here / "listed").mkdir(mode=0o755)
    (there / "listed").stat()
    os.setxattr(shared, access, named(7, 7, 7))
    os.setxattr(shared, default, named(7, 7, 7))
    assert (there / "listed").stat().st_mode & 0o7777 == 0o770
    shared = there / "listed"
    assert not makes(1003, 1003, shared / "never") and makes(1001, 5, shared / "made")
    made = here / "listed" / "made"
    assert made.stat().st_mode & 0o7777 == 0o660, "the default list counts, and no umask"
    assert os.getxattr(made, access) == named(6, 7, 6)
    assert reads(1003, 1002, made) and writes(1003, 1002, shared / "made") and not reads(1003, 1003, made)
    made.chmod(0o640)
    assert os.getxattr(shared / "made", access) == named(6, 7, 4)
    assert reads(1003, 1002, shared / "made") and not writes(1003, 1002, shared / "made")
    (shared / "inner").mkdir()
    assert os.getxattr(here / "listed" / "inner", default) == named(7, 7, 7)
    os.rename(made, here / "listed" / "inner" / "made")
    os.link(here / "listed" / "inner" / "made", here / "listed-too")
    made = there / "listed-too"
    assert os.getxattr(made, access) == named(6, 7, 4) and sorted(os.listxattr(made)) == [access]
    refuses(errno.EACCES, os.setxattr, made, default, named(7, 7, 7))
    refuses(errno.EINVAL, os.setxattr, made, access, named(7, 7, 7)[:-1])
    assert not may(1003, 1002, lambda: os.setxattr(made, access, named(7, 7, 7)))
    plain = access_list((1, 6, 0xFFFFFFFF), (4, 4, 0xFFFFFFFF), (32, 4, 0xFFFFFFFF))
    os.setxattr(made, access, plain)
    refuses(errno.ENODATA, os.getxattr, here / "listed-too", access)
    assert (here / "listed-too").stat().st_mode & 0o7777 == 0o644 and reads(1003, 1003, here / "listed-too")
    os.removexattr(shared, default)
    (here / "listed" / "last").touch()
    refuses(errno.ENODATA, os.getxattr, shared / "last", access)
    assert not reads(1003, 1003, shared / "last") and reads(1003, 1002, shared / "last")
