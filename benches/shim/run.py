#!/usr/bin/env python3
"""A training job of two stages and two replicas whose collectives wait for simulated optical circuits.

Four ranks, each a host of its own with one port on one optical switch: a replica group's circuit and a pipeline's take the same
ports, so that circuits change between the phases of every step. For every mode and delay this starts `motet serve` with a simulated
switch, four `motet manager`s, and `benches/workload/fsdp_kineto.py --times` with `libmotet_shim.so` preloaded, and writes the times of its
steps.

    cargo build --release -p motet -p motet-shim
    python benches/shim/run.py --bin target/release --out results

Without a GPU for each rank they share one (start MPS first), and NCCL talks over sockets. `--job` has the options of the job. What is
written: results/MODE-DELAY/steps-RANK.csv, results/MODE-DELAY/rank-R.trace, and results/steps.csv with a line for each run.
"""

import argparse
import csv
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPT = os.path.join(HERE, "..", "workload", "fsdp_kineto.py")
GROUPS = [("dp_shard", [0, 1]), ("dp_shard", [2, 3]), ("pp", [0, 2]), ("pp", [1, 3])]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, help="folder of motet and libmotet_shim.so")
    parser.add_argument("--out", required=True)
    parser.add_argument("--modes", default="none,observe,on_demand,provisioned")
    parser.add_argument("--delays", default="0,1,15,25,100", help="of the optics, in ms")
    parser.add_argument("--skip", type=int, default=13, help="steps before those that count")
    parser.add_argument("--steps", type=int, default=12, help="steps that count")
    parser.add_argument("--limit", type=float, default=180, help="seconds before a run is given up")
    parser.add_argument("--job", default="--layers 8 --hidden 2048 --heads 16 --sequence 2048 --vocab 32768 --batch 8 --micro-batches 4")
    return parser.parse_args()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def write_configuration(folder, mode, delay, port):
    with open(os.path.join(folder, "motet.toml"), "w") as file:
        file.write(f'listen = "127.0.0.1:{port}"\nstore = "memory"\n')
        file.write(f'[[switch]]\nname = "rail0"\nports = 4\n[switch.sim]\noptics = "{delay} ms"\n')
    groups = []
    for number, (name, (a, b)) in enumerate(GROUPS):
        circuit = {"switch": 0, "a": a, "b": b}
        groups.append({"id": number, "name": name, "members": [a, b], "circuits": [circuit], "ranks": [[a], [b]]})
    ports = [{"member": it, "switch": 0, "number": it} for it in range(4)]
    with open(os.path.join(folder, "job.json"), "w") as file:
        json.dump({"job": 1, "tenant": 0, "mode": mode, "ports": ports, "groups": groups}, file)


def start_services(args, folder, mode, delay):
    """The controller and the managers, when they are ready."""
    port = free_port()
    write_configuration(folder, mode, delay, port)
    motet = os.path.join(args.bin, "motet")
    said = open(os.path.join(folder, "services.log"), "w")
    running = [subprocess.Popen([motet, "serve", os.path.join(folder, "motet.toml")], stdout=said, stderr=said)]
    for member in range(4):
        words = ["manager", "--controller", f"http://127.0.0.1:{port}", "--job", os.path.join(folder, "job.json")]
        words += ["--member", str(member), "--socket", os.path.join(folder, f"{member}.sock")]
        running.append(subprocess.Popen([motet, *words], stdout=said, stderr=said))
    until = time.monotonic() + 20
    while not all(os.path.exists(os.path.join(folder, f"{it}.sock")) for it in range(4)):
        if time.monotonic() > until:
            sys.exit(f"the managers do not start; see {said.name}")
        time.sleep(0.1)
    return running


def run(args, mode, delay):
    """One job; the times of its slowest rank's steps that count, and its losses."""
    folder = os.path.abspath(os.path.join(args.out, f"{mode}-{delay}"))
    os.makedirs(folder, exist_ok=True)
    services, env = [], dict(os.environ)
    if mode != "none":
        env["LD_PRELOAD"] = os.path.abspath(os.path.join(args.bin, "libmotet_shim.so"))
        env["MOTET_SHIM_TRACE"] = os.path.join(folder, "rank-%r.trace")
        env["MOTET_SHIM_LOG"] = "info"
        services = start_services(args, folder, mode, delay)
        env["MOTET_SHIM_SOCKET"] = os.path.join(folder, "%r.sock")
        env["MOTET_SHIM_JOB"] = os.path.join(folder, "job.json")
    words = ["--ranks", "4", "--stages", "2", "--times", "--out", folder]
    words += ["--warmup", str(args.skip), "--steps", str(args.steps), *args.job.split()]
    with open(os.path.join(folder, "job.log"), "w") as said:
        job = subprocess.Popen([sys.executable, SCRIPT, *words], env=env, stdout=said, stderr=said)
        try:
            code = job.wait(args.limit)
        except subprocess.TimeoutExpired:
            job.send_signal(signal.SIGTERM)
            job.wait()
            code = "time is up"
    for it in services:
        it.terminate()
    for it in services:
        it.wait()
    if code != 0:
        print(f"{mode} {delay}: the job failed ({code}); see {folder}/job.log", flush=True)
        return None
    ranks = []
    for rank in range(4):
        with open(os.path.join(folder, f"steps-{rank}.csv")) as file:
            ranks.append(list(csv.DictReader(file)))
    slowest = [max(float(it["seconds"]) for it in step) for step in zip(*ranks)]
    return slowest[args.skip :], ranks[-1][-1]["loss"]


def main():
    args = arguments()
    os.makedirs(args.out, exist_ok=True)
    plain = [it for it in args.modes.split(",") if it in ("none", "observe")]
    switched = [it for it in args.modes.split(",") if it not in plain]
    runs = [(it, "0") for it in plain]
    runs += [(mode, delay) for delay in args.delays.split(",") for mode in switched]
    with open(os.path.join(args.out, "steps.csv"), "a") as file:
        for mode, delay in runs:
            came = run(args, mode, delay)
            if came is None:
                continue
            steps, loss = came
            line = f"{mode},{delay},{statistics.median(steps):.4f},{min(steps):.4f},{max(steps):.4f},{len(steps)},{loss}"
            print(line, flush=True)
            file.write(line + "\n")
            file.flush()


if __name__ == "__main__":
    main()
