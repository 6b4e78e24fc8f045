#!/usr/bin/env python3
"""Makes faulty plans, to see that the harness notices.

    selftest.py --plans OWN --out FOLDER       (OWN: a folder that own_plans.py has filled)
    run.py --driver … --manifest FOLDER/manifest.jsonl --no-nccl --limit 4 --out …

Every line of the manifest says what the harness must find ("expect"); run.py lists what came out otherwise.
"""

import argparse
import copy
import json
import os
import sys


def load(folder, prefix):
    for name in sorted(os.listdir(folder)):
        if name.startswith(prefix) and name.endswith(".json"):
            with open(os.path.join(folder, name)) as file:
                return json.load(file)
    raise SystemExit(f"selftest.py: {folder} has no plan {prefix}*")


def operations(plan, rank=None):
    for gpu in plan["gpus"]:
        if rank is None or gpu["id"] == rank:
            for block in gpu["threadblocks"]:
                yield from ((block["ops"], op) for op in list(block["ops"]))


def drop(plan, names, rank=None, count=None):
    """Removes operations with these names; at most `count` of them."""
    left = count
    for ops, op in operations(plan, rank):
        if op["name"] in names and left != 0:
            ops.remove(op)
            left = left - 1 if left else left
    return plan


def shift_unpack(plan, rank, to):
    """The first unpacking of a rank writes somewhere else."""
    for _, op in operations(plan, rank):
        if op["name"] == "upkt":
            op["dst_buff"][0]["index"] = to
            return plan
    raise SystemExit("selftest.py: no unpacking in the plan")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--plans", required=True, help="folder of own_plans.py")
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    simple = load(args.plans, "allgather-2-i1t")
    packets = load(args.plans, "allgather_pkt-2-i1t")
    reduce = load(args.plans, "allreduce-2-b8t1024")
    cases = []

    def case(ident, plan, expect, **more):
        file = ident + ".json"
        with open(os.path.join(args.out, file), "w") as out:
            json.dump(plan, out)
        entry = {"id": ident, "file": file, "source": "selftest", "collective": plan["collective"]}
        entry |= {"ranks": len(plan["gpus"]), "bytes": [16384], "forms": ["in"], "expect": expect}
        cases.append(entry | more)

    case("good-simple", simple, "ok")
    case("good-packets", packets, "ok")
    case("good-types", reduce, "ok", types=["float", "half", "bf16", "int"])
    # A part of the output is not written.
    case("lost-part", shift_unpack(copy.deepcopy(packets), 0, 0), "wrong")
    # The output is left: the chunk behind its end is written.
    case("past-the-end", shift_unpack(copy.deepcopy(packets), 0, 2), "wrong", bytes=[1024])
    # Nobody asks whether the other rank is ready: only calls in a row or with delays show it.
    case("no-entry-sync", drop(copy.deepcopy(simple), ("rlxsignal", "rlxwait")), "wrong", bytes=[1 << 20])
    # The size does not divide into the plan's chunks.
    case("odd-size", reduce, "refused", bytes=[1040])
    # Two plans, one name, the same buffers.
    clash = {"group": "clash", "name": "keep", "bytes": [65536], "force": False}
    first, second = copy.deepcopy(simple), load(args.plans, "allgather_ring-2-i")
    second["name"] = first["name"]
    case("name-clash-first", first, "ok", **clash)
    case("name-clash-second", second, ["crash", "wrong", "hang", "refused", "ok"], **clash)
    # A signal is missing: the other rank waits for ever.
    case("lost-signal", drop(copy.deepcopy(simple), ("signal",), rank=0, count=1), "hang", force=True)
    with open(os.path.join(args.out, "manifest.jsonl"), "w") as manifest:
        manifest.writelines(json.dumps(entry) + "\n" for entry in cases)
    print(f"{len(cases)} cases in {args.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
