"""Transforms of torch.func that use forward mode AD, on distributed tensors."""

import pytest
import torch
import weft
from torch.func import hessian, jacfwd, jvp, vmap
from torch.nn import functional as F
from weft import Replicate, Shard

PROGRAMS = {
    "jvp": lambda x, w: jvp(lambda x: (x @ w).tanh(), (x,), (x * 2,)),
    "jvp in two arguments": lambda x, w: jvp(lambda x, w: F.linear(x, w.mT), (x, w), (x * 2, w * 3)),
    "jacfwd": lambda x, w: jacfwd(lambda x: (x @ w).tanh())(x),
    "hessian": lambda x, w: hessian(lambda x: (x @ w).tanh().sum())(x),
    "jacfwd of jacfwd": lambda x, w: jacfwd(jacfwd(lambda x: (x @ w).tanh().sum()))(x),
    "vmap of jvp": lambda x, w: vmap(lambda x: jvp(lambda x: (x @ w).sin(), (x,), (x,)))(x),
    "embedding": lambda x, w: jvp(lambda w: F.embedding(x[:2, 0].long().abs(), w), (w,), (w * 2,)),
}


@pytest.mark.parametrize("placement", [Replicate(), Shard(0), Shard(1)], ids=str)
@pytest.mark.parametrize("name", PROGRAMS)
def test_transforms(name, placement):
    mesh = weft.init_device_mesh("cpu", (2,))
    x, w = torch.randn(5, 6), torch.randn(6, 8)
    expected = PROGRAMS[name](x, w)
    result = PROGRAMS[name](*(weft.distribute_tensor(t, mesh, [placement]) for t in (x, w)))
    for one, other in zip(*(torch.utils._pytree.tree_leaves(each) for each in (result, expected)), strict=True):
        torch.testing.assert_close(one.full_tensor(), other, rtol=1e-4, atol=1e-5)
