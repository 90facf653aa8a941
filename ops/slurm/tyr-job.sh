#!/usr/bin/env bash
#SBATCH --job-name=tyr
#SBATCH --ntasks-per-node=2
#SBATCH --time=01:00:00
# A cluster that lives as long as a Slurm job, on the local storage of the job's nodes:
#
#   JOB_STAGE_IN=$HOME/input JOB_STAGE_OUT=$SCRATCH/output sbatch --nodes=4 tyr-job.sh srun --overlap ./application
#
# Each node of the job runs a node of the cluster. JOB_STAGE_IN is imported as job/in, the command runs with TYR_STORE set, and what is
# then under job/out, if anything is, is exported to JOB_STAGE_OUT. When the command ends, whatever its status, the nodes stop and their storage
# is cleaned. The job ends with the status of the command; if that is 0 and staging out failed, with that of the latter, and what could be
# read is in a directory of JOB_SHARED that the job names.
#
#   JOB_LOCAL       where each node keeps its data: node-local storage ($TMPDIR, or /tmp)
#   JOB_SHARED      a directory that all nodes see and nobody else may: for the job's secret ($HOME)
#   JOB_PORT        the first of as many ports as there are nodes (7700)
#   JOB_REPLICAS    how many nodes have everything (2: one may die)
#   JOB_DURABILITY  disk, or memory: faster, and lost with the nodes (disk)
set -euo pipefail
umask 077

export JOB_LOCAL=${JOB_LOCAL:-${TMPDIR:-/tmp}} JOB_PORT=${JOB_PORT:-7700}
export JOB_REPLICAS=${JOB_REPLICAS:-2} JOB_DURABILITY=${JOB_DURABILITY:-disk}
rm -rf "${JOB_SHARED:-$HOME}/tyr-job-$SLURM_JOB_ID".*
shared=$(mktemp -d "${JOB_SHARED:-$HOME}/tyr-job-$SLURM_JOB_ID.XXXXXX")
export TYR_SECRET_FILE=$shared/secret
tyr secret "$TYR_SECRET_FILE"

# The nodes listen at the ports that follow the first one, in the order of the job's nodes.
mapfile -t hosts < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
addresses=()
for place in "${!hosts[@]}"; do
    addresses+=("${hosts[place]}:$((JOB_PORT + place))")
done
export JOB_ADDRESSES="${addresses[*]}"

# What runs on each node of the job: the first founds the cluster, the others join it.
serve() {
    local addresses
    read -ra addresses <<<"$JOB_ADDRESSES"
    local own=${addresses[SLURM_NODEID]}
    # A job that is run again has the same number, and may find what its earlier runs had no time to clean: nodes of clusters that are no more.
    local run=${SLURM_RESTART_COUNT:-0} earlier
    for ((earlier = 0; earlier < run; earlier++)); do
        rm -rf "$JOB_LOCAL/tyr-job-$SLURM_JOB_ID-$earlier-"*
    done
    # Known at the end of the program, too.
    directory=$JOB_LOCAL/tyr-job-$SLURM_JOB_ID-$run-$SLURM_NODEID
    rm -rf "$directory"
    local options=(--directory "$directory" --listen "0.0.0.0:${own##*:}" --advertise "$own" --zone "node-$SLURM_NODEID" --quiet --log warn)
    if ((SLURM_NODEID == 0)); then
        options+=(--replicas "$JOB_REPLICAS" --durability "$JOB_DURABILITY")
    else
        options+=(--join "${addresses[0]}")
    fi
    tyr server "${options[@]}" &
    local server=$!
    # What the job leaves behind, the next one would find.
    trap 'rm -rf "$directory"' EXIT
    trap 'kill -TERM $server' TERM
    # A signal ends the first wait, and the server after it.
    wait $server || true
    wait $server
}
export -f serve

srun --overlap --nodes="${#hosts[@]}" --ntasks="${#hosts[@]}" --ntasks-per-node=1 bash -c serve &
nodes=$!
end() {
    kill -TERM $nodes 2>/dev/null || true
    wait $nodes || true
    rm -rf "$shared"
}
trap end EXIT

TYR_STORE=tyr://$(IFS=,; echo "${addresses[*]}")
export TYR_STORE
until tyr cluster status --timeout 5 --quiet >/dev/null 2>"$shared/waits"; do
    # A node that cannot start says why, and there is nothing to wait for.
    kill -0 $nodes
done
for address in "${addresses[@]}"; do
    tyr cluster add "$address" --wait 300
done
# The application knows a token, and not the secret of the nodes. On a cluster of its own it may do everything.
tyr user create job
tyr grant job administer --cluster
tyr token create job --lifetime 30d --output "$shared/token"
unset TYR_SECRET_FILE
export TYR_TOKEN_FILE=$shared/token
tyr keyspace create job --durability "$JOB_DURABILITY"

if [[ -n ${JOB_STAGE_IN:-} ]]; then
    tyr import "$JOB_STAGE_IN" job/in
fi
status=0
"$@" || status=$?
if [[ -n ${JOB_STAGE_OUT:-} ]]; then
    staged=0
    tyr export job/out "$JOB_STAGE_OUT" || staged=$?
    # An application that leaves nothing has nothing to stage out.
    if ((staged == 13)) && left=$(tyr blob ls job/out/ --limit 1) && [[ -z $left ]]; then
        staged=0
    fi
    if ((staged != 0)); then
        # What the nodes have goes with them, so what failed may be tried once more into another directory that outlasts the job.
        kept=$(mktemp -d "${JOB_SHARED:-$HOME}/tyr-job-$SLURM_JOB_ID-out.XXXXXX")
        again=0
        tyr export job/out "$kept" || again=$?
        echo "tyr-job: staging out to '$JOB_STAGE_OUT' failed with $staged; of what is missing there, '$kept' has what could be read, and that ended with $again" >&2
        # The status of an application that failed says more.
        ((status != 0)) || status=$staged
    fi
fi
exit $status
