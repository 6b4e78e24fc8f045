#!/usr/bin/env python3
"""Runs collectives through NCCL with Motet's plugin, checks every element, and times settings against one another in
turns: NCCL's own, the plan's, or any that are given. One process per rank, all on this machine.

    run.py --nccl /path/libnccl.so.2 --plugin /path/libmotet_nccl.so --plan plan --rig sockets --ranks 4 --out results
    run.py … --modes default,ring/ll,tree/ll,ring/simple/1      # without a plan: forced settings

Writes OUT/times.csv (one line for each measurement) and OUT/about.json, and prints the gains. README.md says what is
measured and how. Python's standard library only.
"""

import argparse
import csv
import json
import math
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import control

HERE = os.path.dirname(os.path.abspath(__file__))


class Fault(Exception):
    """Something the user must put right."""


def parse_size(text):
    for suffix, factor in (("K", 1 << 10), ("M", 1 << 20), ("G", 1 << 30)):
        if text.upper().endswith(suffix):
            return int(text[:-1]) * factor
    return int(text)


def rig_environment(rig, rank, ranks):
    """How several ranks on one machine reach one another."""
    if rig == "sockets":
        # A host of its own for each: NCCL goes by the network, and counts as many nodes as ranks.
        return {
            "NCCL_HOSTID": f"motet-{rank}",
            "NCCL_NET": "Socket",
            "NCCL_SOCKET_IFNAME": "lo",
            "NCCL_P2P_DISABLE": "1",
            "NCCL_SHM_DISABLE": "1",
        }
    if rig == "shared":
        # Several ranks on one GPU, directly (NCCL 2.30 and later); more channels than fit at once would hang.
        return {"NCCL_MULTI_RANK_GPU_ENABLE": "1", "NCCL_MAX_NCHANNELS": "16" if ranks <= 4 else "12"}
    return {}


class Mps:
    """CUDA's multi-process service in a folder of its own, where ranks share a GPU."""

    def __init__(self, wanted):
        self.folder = None
        if not wanted:
            return
        if not shutil.which("nvidia-cuda-mps-control"):
            raise Fault("nvidia-cuda-mps-control is not there: ranks cannot share a GPU well (--no-mps to try)")
        self.folder = tempfile.mkdtemp(prefix="mps-")
        subprocess.run(["nvidia-cuda-mps-control", "-d"], env={**os.environ, **self.environment()}, check=True)

    def environment(self):
        if self.folder is None:
            return {}
        return {"CUDA_MPS_PIPE_DIRECTORY": self.folder, "CUDA_MPS_LOG_DIRECTORY": self.folder}

    def stop(self):
        if self.folder is not None:
            command = ["nvidia-cuda-mps-control"]
            environment = {**os.environ, **self.environment()}
            subprocess.run(command, input=b"quit\n", env=environment, check=False, timeout=30)
            shutil.rmtree(self.folder, ignore_errors=True)


class Ranks:
    """The processes, in step: `ask` sends a step to all and waits for all."""

    def __init__(self, args, environment):
        self.processes, self.lines = [], []
        with socket.create_server(("127.0.0.1", 0)) as server:
            server.settimeout(args.limit)
            port = str(server.getsockname()[1])
            for rank in range(args.ranks):
                command = [sys.executable, os.path.join(HERE, "rank.py"), "127.0.0.1", port]
                command += [str(rank), str(args.ranks), str(rank % args.gpus), args.nccl]
                rank_environment = {**rig_environment(args.rig, rank, args.ranks), **environment}
                output = open(os.path.join(args.out, f"rank-{rank}.log"), "w")
                self.processes.append(
                    subprocess.Popen(command, env=rank_environment, stdout=output, stderr=output)
                )
            try:
                connections = {}
                for _ in range(args.ranks):
                    connection, _ = server.accept()
                    connection.settimeout(args.limit)
                    lines = connection.makefile("rw")
                    connections[json.loads(lines.readline())["rank"]] = lines
                self.lines = [connections[rank] for rank in range(args.ranks)]
            except TimeoutError:
                self.kill()
                raise Fault(f"not all ranks have started within {args.limit} s; see {args.out}/rank-*.log") from None

    def ask(self, step, only=None):
        asked = self.lines if only is None else [self.lines[only]]
        try:
            for lines in asked:
                print(json.dumps(step), file=lines, flush=True)
            answers = [json.loads(lines.readline()) for lines in asked]
        except (TimeoutError, OSError, ValueError) as error:
            self.kill()
            raise Fault(f"the ranks do not answer ({error}); step {step}; see rank-*.log") from None
        for answer in answers:
            if "error" in answer:
                self.kill()
                raise Fault(answer["error"])
        return answers

    def kill(self):
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()

    def end(self):
        self.ask({"do": "end"})
        for lines in self.lines:
            lines.close()
        for process in self.processes:
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                raise Fault("a rank does not end") from None


def calls_of(size):
    return max(4, min(40, (8 << 20) // max(size, 1)))


def measure(args, ranks, shared, writer):
    """Every collective and size, all modes in turns. Returns times by (collective, size, mode)."""
    times, wrong = {}, []
    for collective in args.collectives:
        for size in args.sizes:
            step = {"collective": collective, "bytes": size, "calls": calls_of(size)}
            modes = []
            for mode in args.modes:
                shared.force(collective, mode)
                right = all(it["right"] for it in ranks.ask({"do": "check", **step}))
                if not right:
                    wrong.append((collective, size, mode))
                if not shared.offered(collective):
                    continue
                modes.append(mode)
                if args.graphs:
                    ranks.ask({"do": "capture", "mode": mode, **step})
            for round_ in range(args.rounds):
                for number, mode in enumerate(modes + args.again):
                    shared.force(collective, mode)
                    answers = ranks.ask({"do": "time", "mode": mode, **step})
                    slowest = max(it["us"] for it in answers)
                    label = mode if number < len(modes) else mode + " again"
                    times.setdefault((collective, size, label), []).append(slowest)
                    writer.writerow([args.rig, args.ranks, collective, size, label, round_, f"{slowest:.3f}"])
            if args.graphs:
                ranks.ask({"do": "forget"})
            shared.force(collective, "plan")
    return times, wrong


def report(args, times):
    """Gains over the first mode: medians, and geometric means up to 1 MiB and above."""
    base = args.modes[0]
    labels = [it for it in dict.fromkeys(key[2] for key in times) if it != base]
    print(f"{'collective':14}{'bytes':>11}{base:>12} " + "".join(f"{it:>20}" for it in labels))
    gains = {}
    for collective, size in dict.fromkeys(key[:2] for key in times):
        first = times[collective, size, base]
        line = f"{collective:14}{size:11}{statistics.median(first):12.1f} "
        for label in labels:
            if (collective, size, label) not in times:
                line += f"{'-':>20}"
                continue
            # Round by round, so that drift hits both sides.
            other = times[collective, size, label]
            gain = statistics.median(left / right for left, right in zip(first, other))
            gains.setdefault((collective, label, size <= 1 << 20), []).append(gain)
            line += f"{statistics.median(other):12.1f} ({gain:5.3f})"
        print(line)
    for (collective, label, small), values in gains.items():
        mean = math.exp(statistics.fmean(map(math.log, values)))
        place = "up to 1 MiB" if small else "above 1 MiB"
        print(f"{collective}, {label}, {place}: geometric mean {mean:.3f}, least {min(values):.3f}")


def options(extend=None):
    """What was asked for; `extend` adds options and defaults of another script."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nccl", required=True, help="libnccl.so.2, or `dry` to try the harness without a GPU")
    parser.add_argument("--plugin", required=True, help="libmotet_nccl.so")
    parser.add_argument("--plan", help="MOTET_PLAN")
    parser.add_argument("--out", required=True)
    parser.add_argument("--rig", choices=["sockets", "shared", "plain"], default="plain")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--gpus", type=int, default=1)
    parser.add_argument("--collectives", default="allreduce,allgather,reducescatter,broadcast,reduce")
    parser.add_argument("--sizes", default="1K,4K,16K,64K,256K,1M,4M,16M,64M,256M")
    parser.add_argument("--modes", default="default,plan")
    parser.add_argument("--again", default="default", help="modes that are timed twice a round, to show the noise")
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--graphs", action="store_true", help="time CUDA graphs: no enqueueing in the times")
    parser.add_argument("--load", choices=["none", "tuner", "profiler", "both"], default="tuner", help="which plugins")
    parser.add_argument("--limit", type=int, default=120, help="seconds that a step may take")
    parser.add_argument("--no-mps", action="store_true")
    if extend:
        extend(parser)
    args = parser.parse_args()
    args.collectives = args.collectives.split(",")
    args.modes = args.modes.split(",")
    args.again = [it for it in args.again.split(",") if it]
    least = 4 * args.ranks
    args.sizes = [parse_size(it) // least * least for it in args.sizes.split(",")]
    if "plan" in args.modes and not args.plan:
        parser.error("the mode `plan` needs --plan")
    if args.load in ("none", "profiler") and args.modes != ["default"]:
        parser.error("without the tuner there is only --modes default")
    return args


def environment_of(args, path):
    """What ranks are started with; `path` is the control file."""
    plugin = os.path.abspath(args.plugin)
    tuner = plugin if args.load in ("tuner", "both") else "none"
    profiler = plugin if args.load in ("profiler", "both") else "none"
    environment = {**os.environ, "NCCL_TUNER_PLUGIN": tuner, "NCCL_PROFILER_PLUGIN": profiler, "MOTET_CONTROL": path}
    environment.setdefault("NCCL_DEBUG", "INFO")
    environment.setdefault("NCCL_DEBUG_SUBSYS", "INIT,ENV,TUNING,PROFILE")
    if args.plan:
        environment["MOTET_PLAN"] = os.path.abspath(args.plan)
    if profiler == plugin:
        environment["MOTET_TRACE"] = os.path.join(os.path.abspath(args.out), "rank-%r.trace")
    return environment


def session(args, work, tell, names):
    """Ranks with a communicator and buffers for `work`, which writes into the tables `names`; `tell` prints what it returns."""
    os.makedirs(args.out, exist_ok=True)
    path = os.path.join("/dev/shm" if os.path.isdir("/dev/shm") else args.out, f"motet-control-{os.getpid()}")
    mps = Mps(args.nccl != "dry" and args.ranks > args.gpus and not args.no_mps)
    files = [open(os.path.join(args.out, name), "w", newline="") for name in names]
    try:
        shared = control.Control(path)
        ranks = Ranks(args, {**environment_of(args, path), **mps.environment()})
        about = ranks.ask({"do": "about"})[0]
        identity = ranks.ask({"do": "identity"}, only=0)[0]["id"]
        ranks.ask({"do": "begin", "id": identity})
        ranks.ask({"do": "room", "bytes": max(args.sizes)})
        writers = [csv.writer(file) for file in files]
        for writer in writers:
            writer.writerow(["rig", "ranks", "collective", "bytes", "mode", "round", "us"])
        found = work(args, ranks, shared, writers)
        ranks.end()
        about.update(vars(args), date=time.strftime("%Y-%m-%d"))
        with open(os.path.join(args.out, "about.json"), "w") as file:
            json.dump(about, file, indent=1)
        return tell(found) or 0
    except Fault as fault:
        print(f"{os.path.basename(sys.argv[0])}: {fault}", file=sys.stderr)
        return 2
    finally:
        for file in files:
            file.close()
        mps.stop()
        if os.path.exists(path):
            os.unlink(path)


def main():
    args = options()

    def tell(found):
        times, wrong = found
        report(args, times)
        for collective, size, mode in wrong:
            print(f"WRONG: {collective} of {size} bytes, {mode}")
        return 1 if wrong else 0

    return session(args, lambda *it: measure(*it[:3], it[3][0]), tell, ["times.csv"])


if __name__ == "__main__":
    sys.exit(main())
