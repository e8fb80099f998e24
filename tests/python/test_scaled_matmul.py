"""Products of distributed matrices of eight bits, by torch._scaled_mm and torch.nn.functional.scaled_mm: the values of one device,
and the collectives that its shards need."""

import pytest
import torch
import weft
from torch.nn.functional import ScalingType, scaled_mm
from weft import Replicate, Shard

generator = torch.Generator().manual_seed(0)
ROWS = torch.randn(6, 32, generator=generator).to(torch.float8_e4m3fn)
COLUMNS = torch.randn(64, 32, generator=generator).to(torch.float8_e4m3fn).t()
NUMBERS = torch.tensor(0.5), torch.tensor(2.0)
VECTORS = torch.rand(6, 1, generator=generator) + 0.5, torch.rand(1, 64, generator=generator) + 0.5


def by_operator(rows, columns, scales):
    return torch._scaled_mm(rows, columns, *scales, out_dtype=torch.float32)


def by_function(rows, columns, scales):
    recipe = ScalingType.TensorWise if scales[0].numel() == 1 else ScalingType.RowWise
    return scaled_mm(rows, columns, scales[0], recipe, scales[1], recipe, output_dtype=torch.float32)


def run(multiply, placements, scales, scale_placements):
    """The global result on every rank, its placement, and the collectives of the matmul."""
    expected = multiply(ROWS, COLUMNS, scales)

    def program(rank):
        mesh = weft.init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        rows, columns = (weft.distribute_tensor(x, mesh, [p]) for x, p in zip((ROWS, COLUMNS), placements))
        given = [weft.distribute_tensor(x, mesh, [p]) for x, p in zip(scales, scale_placements)]
        with weft.comm_debug() as communicated:
            result = multiply(rows, columns, given)
        torch.testing.assert_close(result.full_tensor(), expected, rtol=1e-4, atol=1e-4)
        return str(result.placements[0]), {kind: calls for kind, (calls, _) in communicated.by_collective().items()}

    return weft.run_on_ranks(2, program)[0]


BOTH = pytest.mark.parametrize("multiply", [by_operator, by_function])


@BOTH
@pytest.mark.parametrize(
    "placements, result",
    [
        ((Replicate(), Shard(1)), "S(1)"),  # colwise
        ((Shard(0), Replicate()), "S(0)"),  # rows of a batch
        ((Shard(1), Shard(0)), "P(sum)"),  # rowwise
    ],
)
def test_scales_of_the_tensors_communicate_nothing(multiply, placements, result):
    assert run(multiply, placements, NUMBERS, [Replicate()] * 2) == (result, {})


@BOTH
@pytest.mark.parametrize(
    "placements, scale_placements, result",
    [
        ((Replicate(), Shard(1)), (Replicate(), Shard(1)), "S(1)"),
        ((Shard(0), Replicate()), (Shard(0), Replicate()), "S(0)"),
        ((Shard(1), Shard(0)), (Replicate(), Replicate()), "P(sum)"),
    ],
)
def test_scales_of_rows_and_columns_are_sharded_as_these(multiply, placements, scale_placements, result):
    assert run(multiply, placements, VECTORS, scale_placements) == (result, {})
