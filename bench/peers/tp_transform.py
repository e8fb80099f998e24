"""PyTorch's side of the benchmark 'transform': tensor_parallel_transformation of stacks of MLP blocks, exported and decomposed.
The programs stay in FOLDER as mlp_<blocks>.pt2, and are exported only where they are not there yet.

Usage: tp_transform.py FOLDER BLOCKS...

A JSON line per stack: blocks, nodes of the graph, seconds of CPU time, collectives put in.
"""

import json
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.tensor.experimental._tp_transform import tensor_parallel_transformation
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel
from torch.fx.passes.shape_prop import _extract_tensor_metadata

from fake_mesh import FakeStore

DIM, ROWS, RANKS = 64, 4, 8


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.net1, self.net2 = nn.Linear(DIM, 4 * DIM), nn.Linear(4 * DIM, DIM)

    def forward(self, x):
        return self.net2(torch.relu(self.net1(x)))


class Stack(nn.Module):
    def __init__(self, blocks):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(blocks))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def exported(folder, blocks):
    path = folder / f"mlp_{blocks}.pt2"
    if path.exists():
        program = torch.export.load(path)
        for node in program.graph.nodes:
            # The transform reads it, but loading does not restore it.
            if isinstance(value := node.meta.get("val"), torch.Tensor):
                node.meta["tensor_meta"] = _extract_tensor_metadata(value)
        return program
    torch.manual_seed(0)
    program = torch.export.export(Stack(blocks).eval(), (torch.randn(ROWS, DIM),)).run_decompositions()
    # Under another name first: what was broken off is no program.
    unfinished = path.with_name("unfinished.pt2")
    torch.export.save(program, unfinished)
    unfinished.rename(path)
    return program


def transformed(program, blocks):
    styles = {}
    for i in range(blocks):
        styles[f"blocks.{i}.net1"], styles[f"blocks.{i}.net2"] = ColwiseParallel, RowwiseParallel
    start = time.process_time()
    result = tensor_parallel_transformation(program, 0, RANKS, "cpu", styles)
    seconds = time.process_time() - start
    collectives = sum("c10d_functional.all_" in str(node.target) for node in result.graph.nodes)
    return {"nodes": len(program.graph.nodes), "seconds": round(seconds, 4), "collectives": collectives}


def main():
    arguments = sys.argv[1:]
    if len(arguments) < 2 or not all(word.isdigit() for word in arguments[1:]):
        print(__doc__)
        return 0 if arguments in (["-h"], ["--help"]) else 2
    torch.set_num_threads(1)
    folder = Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=RANKS)
    for blocks in map(int, arguments[1:]):
        print(json.dumps({"blocks": blocks, **transformed(exported(folder, blocks), blocks)}), flush=True)
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
