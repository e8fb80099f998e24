"""torch.compile on a mesh of 2 x 2: collectives over both dims at once, whose group is made while the program is traced."""

import torch
import weft
from weft import Partial, Replicate, Shard


def test_a_redistribution_over_two_mesh_dims():
    mesh = weft.init_device_mesh("cpu", (2, 2), mesh_dim_names=("outer", "inner"))
    full = torch.arange(32.0).view(8, 4)

    def gathered_and_summed(rows, terms):
        replicated = [Replicate(), Replicate()]
        return rows.redistribute(mesh, replicated), terms.redistribute(mesh, replicated)

    rows = weft.distribute_tensor(full, mesh, [Shard(0), Shard(0)])
    terms = weft.from_local(full, mesh, [Partial(), Partial()])
    results = torch.compile(gathered_and_summed, backend="aot_eager", fullgraph=True)(rows, terms)
    assert all(result.placements == (Replicate(), Replicate()) for result in results)
    assert torch.equal(results[0].to_local(), full) and torch.equal(results[1].to_local(), 4 * full)
