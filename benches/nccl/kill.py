#!/usr/bin/env python3
"""A rank is killed (SIGKILL) in the middle of a collective: what becomes of the others, without and with Motet's plugins?

    kill.py --nccl … --plugin … --rig sockets --ranks 4 --out results [other options of run.py]

NCCL decides what happens to a communicator that has lost a rank; the plugins must not make it worse. Prints for each side how
the other ranks ended: by themselves, by a signal (which none may), or not within ten seconds (they wait in NCCL)."""

import json
import os
import sys
import threading
import time

import control
import run

PATIENCE = 10


def fates(args, side):
    """How ranks ended after rank 1 was killed."""
    args.load = side
    path = os.path.join("/dev/shm" if os.path.isdir("/dev/shm") else args.out, f"motet-control-{os.getpid()}-{side}")
    mps = run.Mps(args.nccl != "dry" and args.ranks > args.gpus and not args.no_mps)
    try:
        shared = control.Control(path)
        ranks = run.Ranks(args, {**run.environment_of(args, path), **mps.environment()})
        ranks.ask({"do": "about"})
        identity = ranks.ask({"do": "identity"}, only=0)[0]["id"]
        ranks.ask({"do": "begin", "id": identity})
        ranks.ask({"do": "room", "bytes": max(args.sizes)})
        step = {"do": "time", "mode": "default", "collective": "allreduce", "bytes": max(args.sizes), "calls": 200}
        shared.force("allreduce", "default")
        for lines in ranks.lines:
            print(json.dumps(step), file=lines, flush=True)
        threading.Timer(0.5, ranks.processes[1].kill).start()
        time.sleep(0.5 + PATIENCE)
        # Those that have answered wait for the next step, so hanging up ends them.
        for lines in ranks.lines:
            try:
                lines.close()
            except OSError:
                pass
        time.sleep(1)
        found = [process.poll() for process in ranks.processes]
        ranks.kill()
        return found
    finally:
        mps.stop()
        if os.path.exists(path):
            os.unlink(path)


def word(status):
    if status is None:
        return "waits in NCCL"
    return f"signal {-status}" if status < 0 else f"ended ({status})"


def main():
    args = run.options()
    os.makedirs(args.out, exist_ok=True)
    bad = 0
    for side in ("none", "tuner", "both"):
        found = fates(args, side)
        print(f"{side:6}" + "  ".join(f"rank {rank}: {word(it)}" for rank, it in enumerate(found)), flush=True)
        # Rank 1 was killed by us; a signal of another's own making is a crash.
        bad += sum(1 for rank, it in enumerate(found) if rank != 1 and it is not None and it < 0)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
