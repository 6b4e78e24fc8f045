#!/usr/bin/env python3
"""A small training job with DDP over the two datacenters of `two_dcs.py`, with Gloo and Motet by turns: the same losses, and how long a
step takes. Needs what `two_dcs.py` needs, and a Python with torch and the package in python/ (PYTHON).

    ddp.py --mbit 200 --ms 5 --steps 20 --rounds 2
"""
import argparse
import json
import os
import statistics
import sys
import tempfile

from two_dcs import HERE, down, on_all, start_links, up


def cluster(args):
    """The cluster file with this link."""
    text = open(f"{HERE}/two-dcs.toml").read()
    text = text.replace('"1 Gbit/s"', f'"{args.mbit:g} Mbit/s"').replace('"5 ms"', f'"{args.ms:g} ms"')
    file = tempfile.NamedTemporaryFile("w", suffix=".toml", delete=False)
    file.write(text)
    file.close()
    return file.name


def job(args, backend, port, file):
    def environment(rank):
        return {"RANK": str(rank), "WORLD_SIZE": "8", "MASTER_ADDR": "10.71.1.1", "MASTER_PORT": str(port),
                "GLOO_SOCKET_IFNAME": "eth0", "MOTET_CLUSTER": file, "OMP_NUM_THREADS": "1"}
    said = on_all(lambda rank: [args.python, f"{HERE}/ddp_rank.py", backend, str(args.steps)], environment)
    return json.loads(said[0].strip().split("\n")[-1])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mbit", type=float, default=200)
    parser.add_argument("--ms", type=float, default=5)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--warm-up", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--congestion", default="bbr")
    parser.add_argument("--backends", default="gloo,motet")
    parser.add_argument("--python", default=os.environ.get("PYTHON") or sys.executable)
    args = parser.parse_args()
    args.second = 0
    down()
    children, file, losses = [], cluster(args), {}
    try:
        up(args.congestion)
        children = start_links(args)
        port = 29600
        for _ in range(args.rounds):
            for backend in args.backends.split(","):
                port += 1
                said = job(args, backend, port, file)
                times = said["seconds"][args.warm_up:]
                megabytes = said["parameters"] * 4 / 1e6
                limit = megabytes * 8 / args.mbit + args.ms / 1e3
                middle = statistics.median(times)
                losses.setdefault(backend, said["losses"])
                print(f"{backend:6} {megabytes:.1f} MB of gradients: median step {middle:.3f} s, {min(times):.3f} to "
                      f"{max(times):.3f}, {100 * limit / middle:.0f}% of the raw limit of an AllReduce, {limit:.3f} s; "
                      f"loss {said['losses'][0]:.6f} to {said['losses'][-1]:.6f}", flush=True)
        names = sorted(losses)
        for other in names[1:]:
            apart = max(abs(a - b) for a, b in zip(losses[names[0]], losses[other]))
            print(f"losses of {names[0]} and {other} differ by at most {apart:.2e} over {args.steps} steps")
    finally:
        for child in children:
            child.kill()
            child.wait()
        down()
        os.unlink(file)


if __name__ == "__main__":
    main()
