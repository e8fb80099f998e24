"""Attention with dropout: what is dropped is the same under any placement, and the gradients belong to it."""

import torch
import weft
from torch.nn import functional as F
from weft import Replicate, Shard

X = torch.arange(2 * 4 * 6 * 8.0).reshape(2, 4, 6, 8).sin()


def attended(placement, dropout):
    def program(rank):
        mesh = weft.init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        weft.manual_seed(5)
        q, k, v = (weft.distribute_tensor(X + shift, mesh, [placement]).requires_grad_() for shift in (0.0, 1.0, 2.0))
        result = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)
        result.square().sum().backward()
        return [each.full_tensor().detach() for each in (result, q.grad, k.grad, v.grad)]

    return weft.run_on_ranks(2, program)


def test_it_drops_the_same_under_any_placement():
    expected = attended(Replicate(), 0.3)[0]
    for placement in (Replicate(), Shard(0), Shard(1)):
        for computed in attended(placement, 0.3):
            torch.testing.assert_close(computed, expected)
    kept = attended(Replicate(), 0.0)[0]
    assert not torch.allclose(kept[0], expected[0], atol=1e-2), "it must drop something"
