"""A mount in the foreground, for scripts that look at what programs see of it."""

import os
import signal
import subprocess


class Mount:
    """A mount in the foreground, until the block ends."""

    def __init__(self, tyr, source, directory, *flags, store=None):
        self.directory = directory
        command = [tyr]
        if store:
            command += ["--store", str(store)]
        command += ["mount", source, str(directory), *flags]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        if not line.startswith("mounted "):
            raise SystemExit(f"{command}: {line}{self.process.stderr.read()}")

    def __enter__(self):
        return self.directory

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        out, err = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, f"{self.process.returncode}: {out}{err}"
        assert not os.path.ismount(self.directory)
        self.said = err
