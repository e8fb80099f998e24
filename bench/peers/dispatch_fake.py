"""Two sides of the benchmark 'dispatch', calls from Python on the first rank of a fake world of eight: distributed tensors
of the package weft, or PyTorch's DTensor.

Usage: dispatch_fake.py weft|pytorch

Cases read `add local` or `add distributed`; what is timed is a batch of so many calls, in CPU time.
"""

import os
import sys
import time

import torch
import torch.nn.functional as F

from serve import serve

DEVICE = os.environ.get("WEFT_BENCH_DEVICE", "cpu")


def weft_functions():
    """from_local and redistribute of Weft; a dim to shard, or None for replicated."""
    import weft
    from weft._C import fake_world

    mesh = fake_world(8).mesh(DEVICE, [8], list(range(8)), [])

    def placements(dim):
        return [weft.Replicate() if dim is None else weft.Shard(dim)]

    def from_local(local, dim):
        return weft.from_local(local, mesh, placements(dim))

    return from_local, lambda tensor, dim: tensor.redistribute(mesh, placements(dim))


def pytorch_functions():
    from torch.distributed.tensor import DTensor, Replicate, Shard

    from fake_mesh import fake_mesh

    mesh = fake_mesh((8,), rank=0, device=DEVICE)

    def placements(dim):
        return [Replicate() if dim is None else Shard(dim)]

    def from_local(local, dim):
        return DTensor.from_local(local, mesh, placements(dim), run_check=False)

    return from_local, lambda tensor, dim: tensor.redistribute(mesh, placements(dim))


def adamw_step(parameters, foreach):
    for parameter in parameters:
        parameter.requires_grad_()
        parameter.grad = torch.ones_like(parameter)
    return torch.optim.AdamW(parameters, foreach=foreach).step


def make_cases(from_local, redistribute):
    """The same as bench/dispatch_cases.h: the local call and the distributed one by name."""
    cases = {}

    def add(name, operands, call):
        """A call on some tensors, given as shape and the sharded dim."""
        locals_ = [torch.randn(shape) for shape, _ in operands]
        distributed = [from_local(local, dim) for local, (_, dim) in zip(locals_, operands)]
        cases[f"{name} local"] = lambda: call(*locals_)
        cases[f"{name} distributed"] = lambda: call(*distributed)

    rows, columns, full = ((16, 16), 0), ((16, 16), 1), ((16, 16), None)
    add("add", [rows], lambda a: a + a)
    add("add_", [rows], lambda a: a.add_(a, alpha=0.0))
    add("mul_scalar", [rows], lambda a: a * 2.0)
    add("mul_scalar_", [rows], lambda a: a.mul_(1.0))
    add("mul_broadcast", [rows, ((16,), None)], lambda a, b: a * b)
    add("relu", [rows], lambda a: a.relu())
    add("cat", [rows, rows], lambda a, b: torch.cat((a, b), 1))
    add("split", [rows], lambda a: a.split(8, 1))
    add("mm_row", [rows, full], torch.mm)
    add("mm_column", [full, columns], torch.mm)
    add("linear_3d", [((2, 8, 16), None), ((4, 16), 0)], F.linear)
    add("t", [rows], lambda a: a.t())
    add("sum_dim", [rows], lambda a: a.sum(1))
    add("softmax", [rows], lambda a: a.softmax(-1))
    add("log_softmax", [rows], lambda a: a.log_softmax(-1))
    add("layer_norm", [rows], lambda a: F.layer_norm(a, (16,)))
    add("detach", [rows], lambda a: a.detach())
    plain, tensor = torch.randn(16, 16), from_local(torch.randn(16, 16), 0)
    mask, tensor_mask = torch.ones(16, 16, dtype=torch.bool), from_local(torch.ones(16, 16, dtype=torch.bool), 0)
    cases["where local"] = lambda: torch.where(mask, plain, plain)
    cases["where distributed"] = lambda: torch.where(tensor_mask, tensor, tensor)
    cases["from_local local"] = lambda: plain.view_as(plain)
    cases["from_local distributed"] = lambda: from_local(plain, 0)
    cases["redistribute local"] = lambda: plain.clone()
    cases["redistribute distributed"] = lambda: redistribute(tensor, None)
    for name, foreach in (("adamw_100", False), ("adamw_100_foreach", True)):
        locals_ = [torch.randn(16, 16) for _ in range(100)]
        parameters = [from_local(torch.randn(16, 16), 0) for _ in range(100)]
        cases[f"{name} local"] = adamw_step(locals_, foreach)
        cases[f"{name} distributed"] = adamw_step(parameters, foreach)
    return cases


def batch_of(call, count):
    def batch():
        for _ in range(count):
            call()

    return batch


SIDES = {"weft": weft_functions, "pytorch": pytorch_functions}


def main():
    if len(sys.argv) != 2 or sys.argv[1] not in SIDES:
        print(__doc__)
        return 0 if sys.argv[-1] in ("-h", "--help") else 2
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    with torch.device(DEVICE):
        cases = make_cases(*SIDES[sys.argv[1]]())
    wait = torch.cuda.synchronize if DEVICE == "cuda" else lambda: None
    serve(lambda name, count: batch_of(cases[name], count), barrier=wait, clock=time.thread_time)
    return 0


if __name__ == "__main__":
    sys.exit(main())
