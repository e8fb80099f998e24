"""Programs that PyTorch exports with its functional collectives: gathers and scatters are found in them."""

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import nn
from torch.testing._internal.distributed.fake_pg import FakeStore

import weft

# They are deprecated by name alone.
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")


@pytest.fixture(autouse=True)
def two_ranks():
    dist.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
    yield
    dist.destroy_process_group()


class Called(nn.Module):
    """A function as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *tensors):
        return self.function(*tensors)


def found(tmp_path, function, *tensors, strict=False, lowered=False):
    program = torch.export.export(Called(function), tensors, strict=strict)
    if lowered:
        program = program.run_decompositions()
    torch.export.save(program, tmp_path / "program.pt2")
    return weft._C.find_collectives(str(tmp_path / "program.pt2")).splitlines()


def place(line):
    """'gather %x -> %w along 0 over 0 of 2' without the names of values."""
    words = line.split(":")[0].split()
    return " ".join([words[0], *words[4:]])


FORMS = [(strict, lowered) for strict in (False, True) for lowered in (False, True)]
# Of tensors of two and of three dims: which dim is said, and which one that is. A first dim of one index is a view.
DIMS = [((4, 8), 0, 0), ((4, 8), 1, 1), ((4, 8), -1, 1), ((2, 4, 8), 1, 1), ((2, 4, 8), -1, 2), ((1, 4, 8), 1, 1)]


@pytest.mark.parametrize(("strict", "lowered"), FORMS)
def test_gathers_and_scatters_of_every_dim(tmp_path, strict, lowered):
    def gathers(*tensors):
        dims = [dim for _, dim, _ in DIMS]
        gathered = [functional.all_gather_tensor(x, dim, dist.group.WORLD) for x, dim in zip(tensors, dims)]
        wholes = [x.relu() for x in gathered]
        pieces = [functional.reduce_scatter_tensor(x, "avg", dim, dist.group.WORLD) for x, dim in zip(wholes, dims)]
        return [x + 1 for x in pieces]

    tensors = [torch.randn(shape) for shape, _, _ in DIMS]
    lines = found(tmp_path, gathers, *tensors, strict=strict, lowered=lowered)
    expected = [f"{kind} along {along} over 0 of 2" for kind in ("gather", "scatter(avg)") for _, _, along in DIMS]
    assert [place(line) for line in lines] == expected
    assert "kept" not in "".join(lines)


def test_reductions(tmp_path):
    def reduces(x):
        return functional.all_reduce(x, "sum", dist.group.WORLD)

    assert [line.split(" over ")[1].split(":")[0] for line in found(tmp_path, reduces, torch.randn(4))] == ["0 of 0"]


@pytest.mark.parametrize("lowered", [False, True])
def test_a_gathered_value_that_is_saved_beside_its_uses(tmp_path, lowered):
    def saves(x, w):
        full = functional.all_gather_tensor(x, 1, dist.group.WORLD)
        return full @ w, full

    (line,) = found(tmp_path, saves, torch.randn(4, 8), torch.randn(16, 4), lowered=lowered)
    assert place(line) == "gather along 1 over 0 of 2"


@pytest.mark.parametrize("lowered", [False, True])
def test_the_bits_of_eight_bit_floats(tmp_path, lowered):
    def gathers(x):
        full = functional.all_gather_tensor(x.view(torch.uint8), 1, dist.group.WORLD)
        return full.view(torch.float8_e4m3fn)

    (line,) = found(tmp_path, gathers, torch.randn(4, 8).to(torch.float8_e4m3fn), lowered=lowered)
    assert line.startswith("gather %tensors_0 -> ")
    assert place(line) == "gather along 1 over 0 of 2" and "viewed" not in line


@pytest.mark.parametrize("lowered", [False, True])
def test_what_is_no_gather_says_why(tmp_path, lowered):
    def arrived(x):
        return functional.all_gather_tensor(x, 0, dist.group.WORLD)

    def why(function):
        (line,) = found(tmp_path, function, torch.randn(5, 8), lowered=lowered)
        return line.split(": ")[1]

    assert why(lambda x: torch.cat(arrived(x).chunk(2)[::-1], 1)) == "the shards are joined in another order"
    assert why(lambda x: arrived(x)[:9]) == "only a slice of it is used, of sizes [9,8]"

    def unequal(x):
        full = arrived(x)
        return torch.cat([full[:5], full[5:9]])

    assert why(unequal) == "the joined tensors are not the members' equal shards"

    def twice(x):
        first, _ = arrived(x).chunk(2)
        return torch.cat([first, first], 1)

    assert why(twice) == "the shard of member 0 is joined twice"


def test_sizes_that_are_known_when_the_program_runs(tmp_path):
    batch = torch.export.Dim("batch", min=2, max=64)

    class Gathers(nn.Module):
        def forward(self, x, y):
            gathered = [functional.all_gather_tensor(each, dim, dist.group.WORLD) for dim, each in enumerate((x, y))]
            return [each.relu() for each in gathered]

    sizes = {"x": {0: batch}, "y": {1: batch}}
    program = torch.export.export(Gathers(), (torch.randn(6, 8), torch.randn(8, 6)), dynamic_shapes=sizes)
    torch.export.save(program, tmp_path / "program.pt2")
    lines = weft._C.find_collectives(str(tmp_path / "program.pt2")).splitlines()
    assert [place(line) for line in lines] == ["gather along 0 over 0 of 2", "gather along 1 over 0 of 2"]
