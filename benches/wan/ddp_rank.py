"""One rank of a small training job with DDP; rank 0 prints its losses and times as JSON.

Usage: RANK=r WORLD_SIZE=n MASTER_ADDR=… MASTER_PORT=… ddp_rank.py BACKEND STEPS

A transformer of two layers over a vocabulary of 16,384: 9.97 million parameters, 40 MB of gradients, and one sequence of 16 tokens a
step, so that a step is mostly communication.
"""
import json
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

VOCABULARY, WIDTH, TOKENS = 16_384, 256, 16


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(VOCABULARY, WIDTH)
        layer = torch.nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True)
        self.layers = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = torch.nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens):
        mask = torch.nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
        return self.head(self.layers(self.words(tokens), mask=mask, is_causal=True))


def main():
    backend, steps = sys.argv[1], int(sys.argv[2])
    torch.set_num_threads(1)
    if backend == "motet":
        import motet.torch  # noqa: F401: registers the backend
    dist.init_process_group(backend)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(7)
    model = DistributedDataParallel(Model())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    losses, times = [], []
    for step in range(steps):
        # Texts that can be learned: each token follows from the one before.
        draws = torch.Generator().manual_seed(step * ranks + rank)
        first = torch.randint(0, 64, (1, 1), generator=draws)
        tokens = (first * 31 + torch.arange(TOKENS + 1) * 7) % 97
        dist.barrier()
        start = time.perf_counter()
        optimizer.zero_grad()
        logits = model(tokens[:, :-1])
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, VOCABULARY), tokens[:, 1:].reshape(-1))
        loss.backward()
        optimizer.step()
        times.append(time.perf_counter() - start)
        losses.append(loss.item())
    mean = torch.tensor(losses, dtype=torch.float64)
    dist.all_reduce(mean)
    slowest = torch.tensor(times, dtype=torch.float64)
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    if rank == 0:
        total = sum(it.numel() for it in model.parameters())
        print(json.dumps({"parameters": total, "losses": (mean / ranks).tolist(), "seconds": slowest.tolist()}))
    dist.destroy_process_group()


main()
