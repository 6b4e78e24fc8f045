"""DiLoCo in one file: each rank trains on its own for some steps, and only then do all ranks meet.

    torchrun --nproc-per-node 2 examples/diloco.py --backend gloo
    torchrun --nproc-per-node 2 examples/diloco.py --backend motet

What ranks exchange after every `--inner` steps is the pseudo-gradient: how far the inner optimizer has moved the parameters since all
ranks had the same. An outer optimizer takes a step along the average of these. That is one AllReduce of the whole model every so many
steps, for ranks in different datacenters instead of one for each step. The model and its data are small and random; that the loss falls
is all that they are for. It runs on CPUs and uses torch.distributed only; the backend's name is all that there is to change.
"""
import argparse

import torch
import torch.distributed as dist


def model():
    # All ranks begin with the same parameters.
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.GELU(), torch.nn.Linear(64, 1))


def batches(rank):
    """This rank's part of the data, which others do not have."""
    draws = torch.Generator().manual_seed(1 + rank)
    weights = torch.linspace(-1, 1, 16)
    while True:
        inputs = torch.randn(32, 16, generator=draws)
        yield inputs, torch.sin(inputs @ weights / 4).unsqueeze(1)


def average(tensor):
    dist.all_reduce(tensor)
    return tensor.div_(dist.get_world_size())


def main():
    words = argparse.ArgumentParser()
    words.add_argument("--backend", default="motet")
    words.add_argument("--outer", type=int, default=5, help="how often ranks meet")
    words.add_argument("--inner", type=int, default=10, help="steps of each rank between two meetings")
    words = words.parse_args()

    torch.set_num_threads(1)
    dist.init_process_group(words.backend)
    inner_model, data = model(), batches(dist.get_rank())
    inner = torch.optim.AdamW(inner_model.parameters(), lr=1e-2)
    # The parameters that all ranks have in common.
    common = [it.detach().clone().requires_grad_() for it in inner_model.parameters()]
    outer = torch.optim.SGD(common, lr=0.7, momentum=0.9, nesterov=True)

    for meeting in range(words.outer):
        total = torch.zeros(1)
        for _ in range(words.inner):
            inputs, wanted = next(data)
            loss = torch.nn.functional.mse_loss(inner_model(inputs), wanted)
            inner.zero_grad()
            loss.backward()
            inner.step()
            total += loss.detach()
        for here, own in zip(common, inner_model.parameters()):
            here.grad = average(here.detach() - own.detach())
        outer.step()
        with torch.no_grad():
            for here, own in zip(common, inner_model.parameters()):
                own.copy_(here)
        loss = average(total / words.inner).item()
        if dist.get_rank() == 0:
            print(f"meeting {meeting}: loss {loss:.6f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
