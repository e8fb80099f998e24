"""Making, moving and reading distributed tensors, on ranks as threads."""

import pytest
import torch
import weft
from weft import Partial, Replicate, Shard


def mesh_of(*shape, names=None):
    return weft.init_device_mesh("cpu", shape, mesh_dim_names=names)


def test_a_distributed_tensor_is_a_torch_tensor_with_global_shape():
    def rank_program(rank):
        x = weft.distribute_tensor(torch.arange(12.0).reshape(4, 3), mesh_of(2), [Shard(0)])
        assert type(x) is torch.Tensor and x.shape == (4, 3) and x.device.type == "cpu"
        return x.to_local()

    first, second = weft.run_on_ranks(2, rank_program)
    assert torch.equal(torch.cat([first, second]), torch.arange(12.0).reshape(4, 3))


def test_isinstance_tells_distributed_tensors_from_plain_ones():
    def rank_program(rank):
        x = weft.zeros(4, device_mesh=mesh_of(2), placements=[Shard(0)])
        assert isinstance(x, weft.DTensor) and weft.is_dtensor(x)
        assert isinstance(torch.nn.Parameter(x), weft.DTensor)
        assert isinstance(x + 1, weft.DTensor)
        assert not isinstance(x.to_local(), weft.DTensor)

    weft.run_on_ranks(2, rank_program)
    assert not isinstance(torch.zeros(1), weft.DTensor) and not isinstance("text", weft.DTensor)
    assert issubclass(weft.DTensor, torch.Tensor)
    with pytest.raises(TypeError, match="made by functions"):
        weft.DTensor(torch.zeros(1))


@pytest.mark.parametrize(
    "name",
    ["to_local", "redistribute", "full_tensor", "placements", "device_mesh", "__create_write_items__", "__get_tensor_shard__"],
)
def test_a_plain_tensor_has_no_attribute(name):
    assert not hasattr(torch.zeros(1), name) and not hasattr(torch.nn.Parameter(torch.zeros(1)), name)
    with pytest.raises(AttributeError, match=f"'Tensor' object has no attribute '{name}'"):
        getattr(torch.zeros(1), name)


def test_a_plain_tensor_may_be_given_an_attribute_of_the_same_name():
    x = torch.zeros(1)
    x.placements = "mine"
    assert x.placements == "mine"


def test_torch_still_lists_the_functions_that_can_be_overridden():
    assert torch.Tensor.add in torch.overrides.get_overridable_functions()[torch.Tensor]
    assert torch.Tensor.add in torch.overrides.get_testing_overrides()


def test_methods_and_functions_say_the_same():
    def rank_program(rank):
        mesh = mesh_of(2, 2, names=("dp", "tp"))
        x = weft.distribute_tensor(torch.arange(12.0).reshape(4, 3), mesh, [Shard(0), Shard(-1)])
        assert x.placements == weft.placements(x) == (Shard(0), Shard(1))
        assert x.device_mesh == weft.device_mesh(x) == mesh
        assert torch.equal(x.to_local(), weft.to_local(x))
        assert torch.equal(x.full_tensor(), weft.full_tensor(x))
        assert torch.equal(x.full_tensor(), torch.arange(12.0).reshape(4, 3))
        y = x.redistribute(placements=[Replicate(), Shard(0)])
        z = weft.redistribute(x, mesh, [Replicate(), Shard(0)], async_op=True)
        assert y.placements == z.placements and torch.equal(y.to_local(), z.to_local())
        assert weft.local_shape_and_offset(x) == weft.local_shape_and_offset((4, 3), mesh, [Shard(0), Shard(1)])
        return weft.local_shape_and_offset(x)

    blocks = weft.run_on_ranks(4, rank_program)
    assert blocks == [((2, 2), (0, 0)), ((2, 1), (0, 2)), ((2, 2), (2, 0)), ((2, 1), (2, 2))]


def test_from_local_takes_the_arguments_of_torch():
    def rank_program(rank):
        mesh = mesh_of(2)
        whole = torch.arange(15.0).reshape(5, 3)
        mine = whole[:3] if rank == 0 else whole[3:]
        uneven = weft.DTensor.from_local(mine, mesh, [Shard(0)], run_check=True, shape=whole.shape, stride=whole.stride())
        assert torch.equal(uneven.full_tensor(), whole)
        assert torch.equal(weft.from_local(mine, mesh, [Shard(0)], shape=(5, 3)).full_tensor(), whole)
        terms = weft.from_local(torch.full((2,), float(rank + 1)), mesh, [Partial()])
        assert terms.full_tensor().tolist() == [3.0, 3.0]
        assert weft.from_local(torch.ones(2), mesh).placements == (Replicate(),)
        for given in ({"shape": whole.shape}, {"stride": whole.stride()}):
            with pytest.raises(ValueError, match=r"\[from_local\] shape and stride must be given together"):
                weft.DTensor.from_local(mine, mesh, [Shard(0)], **given)

        local = torch.ones(2, requires_grad=True)
        weft.from_local(local, mesh, [Shard(0)]).full_tensor().sum().backward()
        assert local.grad.tolist() == [1.0, 1.0]

    weft.run_on_ranks(2, rank_program)


def test_a_local_tensor_is_one_object_until_it_is_changed():
    def rank_program(rank):
        x = weft.distribute_tensor(torch.arange(6.0), mesh_of(2), [Shard(0)])
        local = x.to_local()
        assert x.to_local() is local is x._local_tensor
        local.add_(1)
        assert x.full_tensor().tolist() == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
        local.requires_grad_()
        assert x.to_local() is not local and not x.to_local().requires_grad
        x.to_local().t_().resize_(1, 1)
        assert x.to_local().shape == (3,)

        leaf = x.detach().requires_grad_()
        assert leaf.to_local().requires_grad and not leaf._local_tensor.requires_grad
        with torch.no_grad():
            assert leaf.to_local() is leaf._local_tensor
        leaf.data = x * 2
        assert torch.equal(leaf._local_tensor, x.to_local() * 2)
        with torch.inference_mode():
            assert torch.equal(x.to_local(), x._local_tensor)

    weft.run_on_ranks(2, rank_program)


def test_a_local_tensor_can_be_assigned():
    def rank_program(rank):
        x = torch.nn.Parameter(weft.distribute_tensor(torch.arange(6.0), mesh_of(2), [Shard(0)]))
        local = torch.full((3,), 1.0 + rank)
        x._local_tensor = local
        assert x.requires_grad and x.full_tensor().tolist() == [1.0, 1.0, 1.0, 2.0, 2.0, 2.0]
        local.add_(1)
        assert x._local_tensor.tolist() == [2.0 + rank] * 3
        with pytest.raises(ValueError, match=r"\[_local_tensor\] a local tensor of f32\[6\] .* is required, but got one of f64"):
            x._local_tensor = local.double()
        plain = torch.zeros(2)
        plain._local_tensor = local
        assert plain._local_tensor is local

    weft.run_on_ranks(2, rank_program)


def test_gradient_placements_are_honoured():
    def rank_program(rank):
        x = weft.ones(4, device_mesh=mesh_of(2), placements=[Replicate()], requires_grad=True)
        (x.to_local(grad_placements=[Partial()]) * (rank + 1)).sum().backward()
        assert x.grad.full_tensor().tolist() == [3.0] * 4

    weft.run_on_ranks(2, rank_program)


def test_dtypes_around_a_redistribution():
    def rank_program(rank):
        x = weft.ones(4, device_mesh=mesh_of(2), placements=[Shard(0)], requires_grad=True)
        y = x.redistribute(placements=[Replicate()], forward_dtype=torch.bfloat16, backward_dtype=torch.float64)
        assert y.dtype == torch.bfloat16
        y.float().sum().backward()
        assert x.grad.dtype == torch.float32 and x.grad.placements == (Shard(0),)

    weft.run_on_ranks(2, rank_program)


def test_a_mesh_entered_is_the_mesh_of_functions_that_are_given_none():
    def rank_program(rank):
        outer, inner = mesh_of(4), mesh_of(2, 2)
        with outer:
            with inner as entered:
                assert entered == inner and weft.zeros(2).device_mesh == inner
            assert weft.rand(2).device_mesh == outer
        with pytest.raises(ValueError, match=r"\[zeros\] a device mesh is required"):
            weft.zeros(2)

    weft.run_on_ranks(4, rank_program)


def test_factories_take_sizes_both_ways_and_torchs_options():
    def rank_program(rank):
        mesh = mesh_of(2)
        for make, value in ((weft.zeros, 0.0), (weft.ones, 1.0)):
            for x in (make(3, 2, device_mesh=mesh), make((3, 2), device_mesh=mesh), make(torch.Size([3, 2]), device_mesh=mesh)):
                assert x.shape == (3, 2) and x.dtype == torch.get_default_dtype()
                assert torch.equal(x.full_tensor(), torch.full((3, 2), value))
        x = weft.full((3,), 7, device_mesh=mesh, placements=[Shard(0)], requires_grad=False)
        assert x.dtype == torch.int64 and x.full_tensor().tolist() == [7, 7, 7]
        assert weft.empty(3, dtype=torch.bfloat16, device_mesh=mesh, placements=[Shard(0)]).dtype == torch.bfloat16
        assert weft.randn(3, requires_grad=True, device_mesh=mesh).requires_grad
        with pytest.raises(NotImplementedError, match="torch.strided"):
            weft.zeros(3, layout=torch.sparse_coo, device_mesh=mesh)

    weft.run_on_ranks(2, rank_program)


def test_random_numbers_do_not_depend_on_the_placements():
    def rank_program(rank):
        results = []
        for placements in ([Replicate()], [Shard(0)], [Shard(1)]):
            weft.manual_seed(7)
            assert weft.random_state() == (7, 0)
            results.append(weft.randn(5, 3, device_mesh=mesh_of(2), placements=placements).full_tensor())
        state = weft.random_state()
        again = weft.rand(4, device_mesh=mesh_of(2)).full_tensor()
        weft.set_random_state(state)
        assert torch.equal(again, weft.rand(4, device_mesh=mesh_of(2)).full_tensor())
        generator = torch.Generator().manual_seed(3)
        weft.rand(4, device_mesh=mesh_of(2), generator=generator)
        return results

    for results in weft.run_on_ranks(2, rank_program):
        assert torch.equal(results[0], results[1]) and torch.equal(results[0], results[2])


def test_placements_of_torch_are_taken_too():
    from torch.distributed.tensor import Partial as TorchPartial
    from torch.distributed.tensor import Replicate as TorchReplicate
    from torch.distributed.tensor import Shard as TorchShard

    def rank_program(rank):
        x = weft.distribute_tensor(torch.arange(4.0), mesh_of(2), [TorchShard(0)])
        assert x.placements == (Shard(0),)
        assert weft.redistribute(x, placements=[TorchReplicate()]).placements == (Replicate(),)
        assert weft.from_local(torch.ones(1), mesh_of(2), [TorchPartial("max")]).placements == (Partial("max"),)

    weft.run_on_ranks(2, rank_program)


def test_integer_indexing_that_communicates_does_not_hold_the_interpreter():
    def rank_program(rank):
        x = weft.distribute_tensor(torch.arange(6.0), mesh_of(2), [Shard(0)])
        return [float(x[i]) for i in range(6)], x.sum().item()

    for values, total in weft.run_on_ranks(2, rank_program):
        assert values == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0] and total == 15.0


def test_a_tensor_dropped_on_its_way_does_not_hold_the_interpreter():
    def rank_program(rank):
        x = weft.distribute_tensor(torch.arange(6.0), mesh_of(2), [Shard(0)])
        for _ in range(20):
            x.redistribute(placements=[Replicate()], async_op=True)

    weft.run_on_ranks(2, rank_program)


def test_a_plain_tensor_among_distributed_ones_is_an_error_that_says_what_to_do():
    def rank_program(rank):
        mesh = weft.init_device_mesh("cpu", (2,))
        x = weft.distribute_tensor(torch.ones(4), mesh, [Shard(0)])
        with pytest.raises(ValueError, match=r"argument 'other' is a plain tensor of shape \[4\].*weft.replicate_plain\(\)"):
            x + torch.ones(4)

    weft.run_on_ranks(2, rank_program)


def test_a_part_of_a_dim_of_one_element_is_taken_without_communication():
    def rank_program(rank):
        mesh = weft.init_device_mesh("cpu", (2,))
        x = weft.distribute_tensor(torch.ones(1, 2), mesh, [Shard(0)])
        with weft.strict():
            assert x.detach().placements == x.clone().placements == (x + 1).placements == (Shard(0),)

    weft.run_on_ranks(2, rank_program)


def test_factories_make_strided_tensors_alone():
    mesh = weft.init_device_mesh("cpu", (1,))
    assert weft.zeros(2, layout=torch.strided, device_mesh=mesh).shape == (2,)
    with pytest.raises(NotImplementedError, match="layout must be torch.strided, but got torch.sparse_coo"):
        weft.zeros(2, layout=torch.sparse_coo, device_mesh=mesh)


def test_swap_tensors_takes_a_parameter_that_was_used():
    def rank_program(rank):
        x, y = (weft.full((4, 2), value, device_mesh=mesh_of(2), placements=[Shard(0)]).requires_grad_() for value in (1.0, 2.0))
        (x * x).sum().backward()
        torch.utils.swap_tensors(x, y)
        (x * x).sum().backward()
        return x.grad.full_tensor(), y.grad.full_tensor()

    for first, second in weft.run_on_ranks(2, rank_program):
        assert torch.equal(first, torch.full((4, 2), 4.0)) and torch.equal(second, torch.full((4, 2), 2.0))


@pytest.mark.parametrize("loss", ["mse_loss", "smooth_l1_loss", "huber_loss", "l1_loss", "binary_cross_entropy"])
@pytest.mark.parametrize("placement", [Replicate(), Shard(0)])
def test_the_mean_of_nothing_has_an_empty_gradient(loss, placement):
    def rank_program(rank):
        x, y = (weft.zeros(0, 3, device_mesh=mesh_of(2), placements=[placement]) for _ in range(2))
        value = getattr(torch.nn.functional, loss)(x.requires_grad_(), y)
        value.backward()
        return value.detach().full_tensor(), x.grad.shape

    for value, shape in weft.run_on_ranks(2, rank_program):
        assert value.isnan() and shape == (0, 3)


def test_arguments_that_no_device_takes_raise_the_same_on_every_rank():
    def rank_program(rank):
        x = weft.distribute_tensor(torch.ones(5, 5), mesh_of(2), [Replicate()])
        texts = []
        for call in (lambda: torch.bmm(x, x), lambda: torch.dot(x, x)):
            with pytest.raises(RuntimeError) as raised:
                call()
            texts.append(str(raised.value).split("\n")[0])
        return texts

    expected = ["batch1 must be a 3D tensor", "1D tensors expected, but got 2D and 2D tensors"]
    for texts in weft.run_on_ranks(2, rank_program):
        assert all(part in text for part, text in zip(expected, texts, strict=True)), texts


@pytest.mark.parametrize("shape", [(4, 3), (4, 0)])
def test_without_data_where_with_numbers_and_the_gradient_of_clamp_are_distributed(shape):
    """Torch makes plain tensors of the numbers, on meta, whose kernels come before those of distributed tensors."""

    def rank_program(rank):
        x = weft.distribute_tensor(torch.empty(shape, device="meta"), mesh_of(2), [Shard(0)])
        for requires_grad in (False, True):
            x.requires_grad_(requires_grad)
            for made in (torch.where(x > 0, x, 0.5), torch.where(x > 0, 0.5, x), torch.where(x > 0, 1, 0.5)):
                assert weft.is_dtensor(made) and made.shape == shape and made.dtype == torch.float32
                assert made.placements == (Shard(0),)
        gathered = x.redistribute(placements=[Replicate()])
        (gradient,) = torch.autograd.grad(gathered.tanh().sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(torch.where(gradient > 0, gradient, 0.5).clamp(-1, 1).sum(), x)
        assert second.placements == (Shard(0),) and second.shape == shape and second.is_meta

    weft.run_on_ranks(2, rank_program)


def test_detach_in_place_works_in_inference_mode():
    def rank_program(rank):
        x = weft.ones(4, device_mesh=mesh_of(2), placements=[Shard(0)])
        with torch.inference_mode():
            for each in (x * 2, weft.ones(4, device_mesh=mesh_of(2)) * 2, x.clone()):
                assert each.detach_() is each
                each.add_(1)
        recorded = x.clone().requires_grad_() * 2
        recorded.detach_()
        assert not recorded.requires_grad and recorded.grad_fn is None

    weft.run_on_ranks(2, rank_program)
