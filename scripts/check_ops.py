#!/usr/bin/env python3
"""Tries what ops/ has for those who run a cluster: the Slurm job, with programs in place of srun and scontrol that run every node on this machine; the unit of
systemd, which systemd-analyze judges if it is there; and the configuration of a permanent node. `tyr` must be on the PATH."""

import enum
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
NODES = 3

# Runs a command once for each node of the job, and passes a signal on to all of them.
SRUN = """#!/usr/bin/env bash
while [[ $1 == --* ]]; do shift; done
running=()
for node in $(seq 0 $((SLURM_JOB_NUM_NODES - 1))); do
    SLURM_NODEID=$node SLURM_PROCID=$node "$@" &
    running+=($!)
done
trap 'kill -TERM "${running[@]}"' TERM
status=0
for one in "${running[@]}"; do
    wait "$one" || true
    wait "$one" || status=$?
done
exit $status
"""
SCONTROL = """#!/usr/bin/env bash
[[ $1 == show && $2 == hostnames ]] || exit 2
for node in $(seq "$SLURM_JOB_NUM_NODES"); do echo localhost; done
"""
# What a job would run: it reads what was staged in, and writes what is to be staged out.
APPLICATION = """#!/usr/bin/env bash
set -euo pipefail
[[ ${2:-} == nothing ]] || tyr blob cat job/in/words | tr a-z A-Z | tyr blob put job/out/words
[[ $(tyr cluster status --json | grep -o '"presence":"present"' | wc -l) == 3 ]]
exit ${1:-0}
"""


# What comes of staging out.
Out = enum.Enum("Out", ["DONE", "NOTHING", "ELSEWHERE"])


def main():
    with tempfile.TemporaryDirectory(prefix="tyr-ops-") as directory:
        place = pathlib.Path(directory)
        check_job(place / "job", [], 0)
        check_job(place / "failing", ["7"], 7)
        check_job(place / "empty", ["7", "nothing"], 7, Out.NOTHING)
        check_job(place / "idle", ["0", "nothing"], 0, Out.NOTHING)
        check_job(place / "full", ["0"], 1, Out.ELSEWHERE)
        check_job(place / "both", ["7"], 7, Out.ELSEWHERE)
        check_job(place / "again", [], 0, leave=leave_behind)
        check_statuses()
        check_unit(place)
        check_configuration(place)
    print("ops: the job, the unit, and the configuration are in order")


def check(holds, what):
    if not holds:
        sys.exit(f"check_ops: {what}")


def write(path, text):
    path.write_text(text)
    path.chmod(0o755)
    return path


def free_ports():
    """The first of as many ports in a row as there are nodes, which nobody has."""
    for first in range(20000, 30000, NODES):
        sockets = [socket.socket() for _ in range(NODES)]
        try:
            for place, one in enumerate(sockets):
                one.bind(("0.0.0.0", first + place))
            return first
        except OSError:
            continue
        finally:
            for one in sockets:
                one.close()
    sys.exit("check_ops: no port is free")


def leave_behind(place):
    """What is there when a job is run again that was killed: its secret, directories of its nodes, and one where a node of this run will be."""
    for name in ("home/tyr-job-4711.Abcdef", "local/tyr-job-4711-0-0", "local/tyr-job-4711-0-5", "local/tyr-job-4711-1-1/shard-0"):
        (place / name).mkdir(parents=True)
        (place / name / "label").write_text("tyr-label 1\nidentity 7\npart shard 0 of 2\n")


def check_job(place, arguments, status, out=Out.DONE, leave=None):
    for name in ("bin", "in", "out", "local", "home"):
        (place / name).mkdir(parents=True)
    write(place / "bin/srun", SRUN)
    write(place / "bin/scontrol", SCONTROL)
    application = write(place / "bin/application", APPLICATION)
    (place / "in/words").write_text("staged in and out\n")
    if out == Out.ELSEWHERE:
        # A directory is in the way of the file, whoever runs this.
        (place / "out/words").mkdir()
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("TYR_", "JOB_", "SLURM_"))}
    environment |= {
        "PATH": f"{place}/bin:{os.environ['PATH']}", "HOME": str(place / "home"), "JOB_LOCAL": str(place / "local"),
        "JOB_PORT": str(free_ports()), "JOB_STAGE_IN": str(place / "in"), "JOB_STAGE_OUT": str(place / "out"),
        "SLURM_JOB_ID": "4711", "SLURM_JOB_NODELIST": "node[1-3]", "SLURM_JOB_NUM_NODES": str(NODES), "TYR_STORE_SEGMENT_SIZE": "4MiB",
    }
    if leave:
        leave(place)
        environment["SLURM_RESTART_COUNT"] = "1"
    command = [str(ROOT / "ops/slurm/tyr-job.sh"), str(application), *arguments]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
    said = f"{run.stdout}{run.stderr}"
    check(run.returncode == status, f"the job ends with {run.returncode}:\n{said}")
    if out == Out.DONE:
        check((place / "out/words").read_text() == "STAGED IN AND OUT\n", f"nothing is staged out:\n{said}")
    if out == Out.NOTHING:
        check(not list((place / "out").iterdir()), f"something is staged out:\n{said}")
    if out == Out.ELSEWHERE:
        kept = next((place / "home").iterdir(), place)
        check((kept / "words").exists() and (kept / "words").read_text() == "STAGED IN AND OUT\n" and str(kept) in said, f"what is not staged out is lost:\n{said}")
        shutil.rmtree(kept)
    left = [path for name in ("local", "home") for path in (place / name).iterdir()]
    check(left == [], f"the job leaves {left}:\n{said}")


def check_statuses():
    """After a failure that the next start would have, too, the unit starts no other: the numbers are those of the kinds."""
    for_good = ("usage", "exists", "invalid", "denied")
    kinds = dict(re.findall(r"^\| (\d+) \| `([a-z-]+)`", (ROOT / "docs/errors.md").read_text(), re.MULTILINE))
    wanted = sorted(int(number) for number, kind in kinds.items() if kind in for_good)
    named = re.search(r"^RestartPreventExitStatus=(.*)$", (ROOT / "ops/systemd/tyr.service").read_text(), re.MULTILINE)
    check(len(wanted) == len(for_good) and sorted(map(int, named[1].split())) == wanted, f"after {wanted} the unit is to start no other: {named[0]}")


def check_unit(place):
    if not shutil.which("systemd-analyze"):
        print("ops: systemd-analyze is not here; the unit is not looked at")
        return
    # It judges also whether the program is there.
    unit = place / "tyr.service"
    unit.write_text((ROOT / "ops/systemd/tyr.service").read_text().replace("/usr/local/bin/tyr", shutil.which("tyr")))
    run = subprocess.run(["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, timeout=60, check=False)
    own = [line for line in run.stderr.splitlines() if "tyr.service" in line]
    check(run.returncode == 0 or not own, f"systemd does not take the unit:\n{run.stderr}")
    check(own == [], f"systemd says of the unit:\n{run.stderr}")


def check_configuration(place):
    """Every key is known and every value possible: a node comes as far as the files that are not there."""
    text = (ROOT / "ops/systemd/tyr.toml").read_text()
    (place / "tyr.toml").write_text(text.replace("/var/lib/tyr", str(place / "node")).replace("/etc/tyr", str(place / "etc")))
    run = subprocess.run(["tyr", "server", "--config", str(place / "tyr.toml")], capture_output=True, text=True, timeout=60, check=False)
    check(run.returncode != 0 and str(place / "etc") in run.stderr, f"the configuration is wrong:\n{run.stderr}")


if __name__ == "__main__":
    main()
