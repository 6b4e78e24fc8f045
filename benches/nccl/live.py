#!/usr/bin/env python3
"""NCCL's own choice, a plan's table and the agent against one another while a competing load comes and goes.

    live.py --nccl … --plugin … --plan plan --rig sockets --ranks 4 --sizes 4K,16K,64K,256K,1M --out results/live

Each side is a job of its own with all its ranks (`nccl`: no plugin; `plan`: the tuner; `agent`: both plugins and MOTET_AGENT,
`agent:NAME` with that policy). They take turns, a stretch of the same calls each, so that drift and load hit all; `nccl again` is
the first job once more: how far it is from 1 is the noise. Phases without and with a load alternate: `job` (another NCCL job),
`streams` (TCP over the loopback), `busy` (processes that only compute). All elements are checked before, between and after.

Writes OUT/live.csv (a line for each stretch and size), OUT/phases.csv (medians and ratios of each phase) and OUT/about.json."""

import argparse
import csv
import json
import math
import os
import re
import socket
import statistics
import subprocess
import sys
import threading
import time

import run

AGAIN = "nccl again"
STREAM = """
import socket, sys, threading
server = socket.create_server(("127.0.0.1", 0))
def drain():
    while len(connection.recv(1 << 20)) > 0: pass
sender = socket.create_connection(server.getsockname())
connection, _ = server.accept()
threading.Thread(target=drain, daemon=True).start()
block = bytes(1 << 20)
while True: sender.sendall(block)
"""
BUSY = "while True: pass"


def extend(parser):
    parser.add_argument("--sides", default="nccl,plan,agent", help="jobs to compare; `nccl` must be first")
    parser.add_argument("--loads", default="job,streams,busy", help="competing loads, each in phases of its own")
    parser.add_argument("--phase", type=float, default=18, help="seconds of a phase")
    parser.add_argument("--cycles", type=int, default=2, help="how often each load comes")
    parser.add_argument("--stretch", type=float, default=1.0, help="seconds of a side's turn, about")
    parser.add_argument("--every", default="8", help="MOTET_PROFILE_EVERY of the agent's job")
    parser.set_defaults(collectives="allreduce", sizes="4K,16K,64K,256K,1M", modes="default", load="none")


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def burst_of(size):
    """Calls in a row of one size: as a training step has them, not as many as fit."""
    return max(2, min(10, (8 << 20) // max(size, 1)))


class Side:
    """A job that is compared."""

    def __init__(self, args, name, mps):
        self.name = name
        kind, _, policy = name.partition(":")
        own = argparse.Namespace(**vars(args))
        own.out = os.path.join(args.out, name.replace(":", "-"))
        own.load = {"nccl": "none", "plan": "tuner", "agent": "both", "load": "none"}[kind]
        os.makedirs(own.out, exist_ok=True)
        environment = {**run.environment_of(own, ""), **mps.environment()}
        environment.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "4")
        for gone in ("MOTET_CONTROL", "MOTET_TRACE", "MOTET_AGENT", "MOTET_AGENT_POLICY"):
            environment.pop(gone, None)
        if kind == "agent":
            environment.update(MOTET_AGENT=f"127.0.0.1:{free_port()}", MOTET_PROFILE_EVERY=args.every)
            if policy:
                environment["MOTET_AGENT_POLICY"] = policy
        self.out, self.ranks = own.out, run.Ranks(own, environment)
        self.about = self.ranks.ask({"do": "about"})[0]
        identity = self.ranks.ask({"do": "identity"}, only=0)[0]["id"]
        self.ranks.ask({"do": "begin", "id": identity})
        self.ranks.ask({"do": "room", "bytes": max(args.sizes)})

    def check(self, args):
        """What is wrong, if anything."""
        step = {"do": "check", "calls": 1}
        points = [(collective, size) for collective in args.collectives for size in args.sizes]
        return [
            (self.name, collective, size)
            for collective, size in points
            if not all(it["right"] for it in self.ranks.ask({**step, "collective": collective, "bytes": size}))
        ]

    def stretch(self, args, repeats, load):
        """µs per call by (collective, size): the middle of the repeats, each of the slowest rank."""
        points = [(it, size, burst_of(size)) for it in args.collectives for size in args.sizes]
        answers = self.ranks.ask({"do": "stretch", "points": points, "repeats": repeats, "load": load})
        found = {}
        for number, (collective, size, _) in enumerate(points):
            slowest = [max(it) for it in zip(*(answer["us"][number] for answer in answers))]
            found[collective, size] = statistics.median(slowest)
        return found

    def said(self):
        """How often the ranks went over to another table, and the last thing that Motet's log says of the agent."""
        switches, policy = 0, ""
        for name in sorted(os.listdir(self.out)):
            with open(os.path.join(self.out, name), errors="replace") as file:
                text = file.read()
            switches += len(re.findall(r"Motet: all \d+ ranks go over", text))
            policy = policy or next(iter(re.findall(r"Motet: (the policy .*|no policy.*)", text)), "")
        return switches, policy


class Load:
    """A competing load that can be switched on and off."""

    def __init__(self, args, kinds, mps):
        self.processes, self.thread, self.stop, self.fault = [], None, threading.Event(), None
        self.job, self.size = None, 16 << 20
        if "job" in kinds:
            other = argparse.Namespace(**vars(args))
            other.sizes = [self.size]
            self.job = Side(other, "load", mps)

    def begin(self, kind):
        text, count = {"streams": (STREAM, 6), "busy": (BUSY, 8)}.get(kind, ("", 0))
        self.processes = [subprocess.Popen([sys.executable, "-c", text]) for _ in range(count)]
        if kind == "job":
            self.stop.clear()
            self.thread = threading.Thread(target=self.work, daemon=True)
            self.thread.start()

    def work(self):
        step = {"do": "time", "mode": "default", "collective": "allreduce", "bytes": self.size, "calls": 20}
        try:
            while not self.stop.is_set():
                self.job.ranks.ask(step)
        except run.Fault as fault:
            self.fault = fault

    def end(self):
        for process in self.processes:
            process.kill()
            process.wait()
        self.processes = []
        if self.thread is not None:
            self.stop.set()
            self.thread.join()
            self.thread = None
        if self.fault:
            raise self.fault

    def close(self):
        self.end()
        if self.job is not None:
            self.job.ranks.end()


def measure(args, sides, load, writer):
    """All phases. Rows are (phase, load, round, side, collective, bytes, µs); also what was wrong."""
    rows, wrong = [], [it for side in sides for it in side.check(args)]
    began = time.monotonic()
    sides[0].stretch(args, 3, "none")
    spent = time.monotonic()
    sides[0].stretch(args, 3, "none")
    repeats = max(3, round(3 * args.stretch / max(time.monotonic() - spent, 1e-3))) if args.nccl != "dry" else 3
    for side in sides:
        side.stretch(args, repeats, "none")
    print(f"{repeats} repeats a stretch; ready after {time.monotonic() - began:.1f} s", flush=True)
    kinds = [it for kind in args.loads for it in ("none", kind)] * args.cycles + ["none"]
    for phase, kind in enumerate(kinds):
        if kind != "none":
            load.begin(kind)
        end, round_ = time.monotonic() + args.phase, 0
        while time.monotonic() < end or round_ == 0:
            # Nobody is always first.
            turn = sides[round_ % len(sides) :] + sides[: round_ % len(sides)]
            for label, side in [(it.name, it) for it in turn] + [(AGAIN, sides[0])]:
                for (collective, size), us in side.stretch(args, repeats, kind).items():
                    row = [phase, kind, round_, label, collective, size, us]
                    rows.append(row)
                    writer.writerow(row[:-1] + [f"{us:.3f}"])
            round_ += 1
        if kind != "none":
            load.end()
        wrong += [it for side in sides for it in side.check(args)]
        print(f"phase {phase} ({kind}): {round_} rounds", flush=True)
    return rows, wrong


def ratios(rows, base):
    """By (load, phase, collective, bytes, side): the base's time over the side's, round by round."""
    times = {(row[0], row[2], row[4], row[5], row[3]): row[6] for row in rows}
    found = {}
    for phase, kind, round_, side, collective, size, us in rows:
        if side != base:
            first = times[phase, round_, collective, size, base]
            found.setdefault((kind, phase, collective, size, side), []).append((first / us, us))
    return found


def geometric(values):
    return math.exp(statistics.fmean(map(math.log, values)))


def report(rows, base, writer):
    """Medians of each phase into the table; prints for each load and side the mean over sizes, and its spread over phases."""
    found = ratios(rows, base)
    writer.writerow(["load", "phase", "collective", "bytes", "side", "rounds", "us", "ratio", "least", "most"])
    phases = {}
    for (kind, phase, collective, size, side), pairs in found.items():
        gains = [it[0] for it in pairs]
        middle = statistics.median(gains)
        us = statistics.median(it[1] for it in pairs)
        line = [kind, phase, collective, size, side, len(pairs), f"{us:.2f}"]
        writer.writerow(line + [f"{it:.4f}" for it in (middle, min(gains), max(gains))])
        phases.setdefault((kind, side), {}).setdefault(phase, []).append(middle)
    print(f"{'load':10}{'side':18}{base + ' / side':>14}   least and most of the phases")
    for (kind, side), by_phase in sorted(phases.items()):
        means = [geometric(it) for it in by_phase.values()]
        print(f"{kind:10}{side:18}{geometric(means):14.3f}   {min(means):.3f} {max(means):.3f} ({len(means)} phases)")


def main():
    args = run.options(extend)
    args.loads = [it for it in args.loads.split(",") if it]
    names = args.sides.split(",")
    if names[0] != "nccl" or not args.plan:
        print("live.py: --plan is needed, and the first of --sides must be nccl", file=sys.stderr)
        return 2
    os.makedirs(args.out, exist_ok=True)
    mps = run.Mps(args.nccl != "dry" and args.ranks > args.gpus and not args.no_mps)
    live = open(os.path.join(args.out, "live.csv"), "w", newline="")
    try:
        sides = [Side(args, it, mps) for it in names]
        load = Load(args, args.loads, mps)
        writer = csv.writer(live)
        writer.writerow(["phase", "load", "round", "side", "collective", "bytes", "us"])
        rows, wrong = measure(args, sides, load, writer)
        load.close()
        for side in sides:
            side.ranks.end()
        with open(os.path.join(args.out, "phases.csv"), "w", newline="") as file:
            report(rows, "nccl", csv.writer(file))
        for side in sides:
            switches, policy = side.said()
            if side.name.startswith("agent"):
                print(f"{side.name}: {switches} switches of tables; {policy}")
        about = {**sides[0].about, **vars(args), "date": time.strftime("%Y-%m-%d")}
        with open(os.path.join(args.out, "about.json"), "w") as file:
            json.dump(about, file, indent=1)
        for it in wrong:
            print("WRONG: {}, {} of {} bytes".format(*it))
        return 1 if wrong else 0
    except run.Fault as fault:
        print(f"live.py: {fault}", file=sys.stderr)
        return 2
    finally:
        live.close()
        mps.stop()


if __name__ == "__main__":
    sys.exit(main())
