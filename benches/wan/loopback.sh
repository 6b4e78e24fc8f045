#!/bin/sh
# Loopback: Motet (shared memory, TCP), Open MPI (shared memory, TCP) and Gloo by turns, so that whatever else the
# machine does meets all of them alike; where that is allowed, with real-time priority, so that it meets none. Times in microseconds: median, least, most of the slowest rank's.
# Needs: motet (MOTET), mpicc and mpirun, a Python with torch (PYTHON); what is missing is left out.
# Usage: loopback.sh [RANKS] [BYTES] [CALLS] [ROUNDS]
set -u
here=$(cd "$(dirname "$0")" && pwd)
ranks=${1:-4} bytes=${2:-67108864} calls=${3:-20} rounds=${4:-3}
motet=${MOTET:-motet} python=${PYTHON:-python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
command -v mpicc >/dev/null && mpicc -O2 -o "$work/mpi_bench" "$here/mpi_bench.c"
port=29400
first=""
chrt -r 1 true 2>/dev/null && first="chrt -r 1"

gloo() {
    port=$((port + 1))
    for rank in $(seq 0 $((ranks - 1))); do
        RANK=$rank WORLD_SIZE=$ranks MASTER_ADDR=127.0.0.1 MASTER_PORT=$port GLOO_SOCKET_IFNAME=lo \
            $first timeout 300 "$python" "$here/gloo_bench.py" "$1" "$bytes" "$calls" 2>/dev/null &
    done
    wait
}

ours() {
    $first timeout 300 "$motet" --json exec bench -c "$1" -n "$ranks" --size "$bytes B" -i "$calls" $2 |
        awk -v c="$1" -v b="$bytes" -F'[:,]' '/"time_us"/{t=$2} /"min_us"/{l=$2} /"max_us"/{m=$2} END{printf "%s %s %.0f %.0f %.0f\n", c, b, t, l, m}'
}

mpi() {
    $first timeout 300 mpirun --allow-run-as-root --oversubscribe --bind-to none --mca mpi_yield_when_idle 1 --mca pml ob1 \
        --mca btl "$2" -n "$ranks" "$work/mpi_bench" "$1" "$bytes" "$calls" 2>/dev/null
}

for round in $(seq "$rounds"); do
    for collective in allreduce allgather; do
        echo "load $(cut -d' ' -f1 /proc/loadavg)"
        echo "motet-shm $(ours $collective '')"
        [ -x "$work/mpi_bench" ] && echo "ompi-vader $(mpi $collective self,vader)"
        "$python" -c 'import torch' 2>/dev/null && echo "gloo $(gloo $collective)"
        echo "motet-tcp $(ours $collective --no-shared-memory)"
        [ -x "$work/mpi_bench" ] && echo "ompi-tcp $(mpi $collective self,tcp)"
    done
done
