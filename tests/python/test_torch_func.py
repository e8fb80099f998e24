"""torch.func on distributed tensors: transforms of a function give what they give on a single device. Those by forward mode AD
(jvp, jacfwd, hessian) need a rank per process: torchrun/test_torch_func.py."""

import copy

import pytest
import torch
import weft
from torch import nn
from torch.func import functional_call, grad, grad_and_value, jacrev, stack_module_state, vjp, vmap
from torch.nn import functional as F
from weft import Replicate, Shard

torch.manual_seed(2)
MODEL = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4))
X, Y, W, V = torch.randn(5, 6), torch.randn(5, 4), torch.randn(6, 8), torch.randn(8)
IMAGES, FILTERS = torch.randn(4, 2, 8), torch.randn(3, 2, 3)
HEADS = torch.randn(3, 2, 4, 5, 6)
LOGITS, CLASSES = torch.randn(3, 4, 5), torch.tensor([[0, 1, 4, 2], [3, 3, 0, 1], [2, 0, 4, 4]])
LAYOUTS = {"0.weight": Shard(0), "0.bias": Shard(0), "2.weight": Shard(1)}
PLACEMENTS = [Replicate(), Shard(0), Shard(1)]


def network(D, layouts=LAYOUTS):
    model = copy.deepcopy(MODEL)
    for name, parameter in list(model.named_parameters()):
        owner, _, own = name.rpartition(".")
        placed = nn.Parameter(D(parameter.data, layouts.get(name, Replicate())))
        model.get_submodule(owner).register_parameter(own, placed)
    return model, {name: parameter.detach() for name, parameter in model.named_parameters()}


def of_product(transform):
    """A transform of tanh(x W) in x."""

    def program(D):
        weight = D(W, Replicate())
        return transform(lambda x: (x @ weight).tanh())(D(X))

    return program


def per_sample_gradients(D, layouts=LAYOUTS):
    model, parameters = network(D, layouts)

    def loss(parameters, x, y):
        return F.mse_loss(functional_call(model, parameters, (x[None],)), y[None])

    return list(vmap(grad(loss), in_dims=(None, 0, 0))(parameters, D(X), D(Y)).values())


def gradients(D):
    model, parameters = network(D)
    x, y = D(X), D(Y)
    return list(grad(lambda p: F.mse_loss(functional_call(model, p, (x,)), y))(parameters).values())


def ensemble(D):
    models = [network(D)[0] for _ in range(3)]
    parameters, buffers = stack_module_state(models)
    return vmap(lambda p, b, x: functional_call(models[0], (p, b), (x,)), in_dims=(0, 0, None))(parameters, buffers, D(X))


def product_and_pullback(D):
    y, pullback = vjp(lambda w, x: (x @ w).tanh(), D(W), D(X))
    return [y, *pullback(torch.ones_like(y))]


def second_derivative(D):
    x = D(X)
    return grad(lambda w: grad(lambda w: (x @ w).pow(3).sum())(w).pow(2).sum())(D(W))


def value_and_auxiliary(D):
    x = D(X)
    gradient, (value, auxiliary) = grad_and_value(lambda w: ((x @ w).tanh().sum(), w * 2), has_aux=True)(D(W))
    return [gradient, value, auxiliary]


def written_in_place(x):
    y = x * 2
    y.add_(1)
    return y


def mapped(function, operand, data=X, placement=None):
    """vmap over the data of a function that uses a distributed operand as it is."""

    def program(D):
        other = D(operand, Replicate())
        return vmap(lambda x: function(x, other))(D(data) if placement is None else D(data, placement))

    return program


PROGRAMS = {
    "grad": gradients,
    "grad of grad": second_derivative,
    "grad_and_value": value_and_auxiliary,
    "vjp": product_and_pullback,
    "jacrev": of_product(jacrev),
    "jacrev of jacrev": of_product(lambda f: jacrev(jacrev(lambda x: f(x).sum()))),
    "functional_call": lambda D: functional_call(network(D)[0], {k: v * 2 for k, v in network(D)[1].items()}, (D(X),)),
    "gradients of each sample": per_sample_gradients,
    "gradients of each sample, replicated parameters": lambda D: per_sample_gradients(D, {}),
    "ensemble": ensemble,
    "vmap of a product": mapped(lambda x, w: x @ w, W),
    "vmap of linear": mapped(lambda x, w: F.linear(x, w.mT), W),
    "vmap of einsum": mapped(lambda x, w: torch.einsum("i,ij->j", x, w), W),
    "vmap along another dim": lambda D: vmap(lambda x: x.sum(), in_dims=1)(D(X)),
    "vmap of vmap": lambda D: vmap(vmap(lambda x: x * 2 + 1), in_dims=1, out_dims=1)(D(X)),
    "vmap in chunks": lambda D: vmap(lambda x: F.softmax(x, 0), chunk_size=2)(D(X)),
    "vmap of layer_norm": lambda D: vmap(lambda x: F.layer_norm(x, (6,)))(D(X)),
    "vmap of conv1d": mapped(F.conv1d, FILTERS, IMAGES),
    "vmap of attention": lambda D: vmap(lambda q: F.scaled_dot_product_attention(q, q, q))(D(HEADS)),
    "vmap of cross_entropy": lambda D: vmap(F.cross_entropy)(D(LOGITS), D(CLASSES, Replicate())),
    "vmap of embedding": mapped(F.embedding, W, torch.tensor([[0, 1], [5, 3]]), Replicate()),
    "vmap of embeddings, of tables": lambda D: vmap(F.embedding)(D(CLASSES % 4), D(LOGITS)),
    "vmap of vmap of embeddings": lambda D: vmap(vmap(F.embedding))(D(CLASSES[None] % 4), D(LOGITS[None])),
    "gradients of embeddings": lambda D: vmap(grad(lambda w, i: F.embedding(i, w).square().sum()))(D(LOGITS), D(CLASSES % 4)),
    "vmap of batch_norm": lambda D: vmap(lambda x: F.batch_norm(x, None, None, training=True))(D(LOGITS)),
    "vmap of one_hot": lambda D: vmap(lambda i: F.one_hot(i, 5))(D(CLASSES)),
    "vmap of writes": lambda D: vmap(written_in_place)(D(X)),
    "functionalize": lambda D: torch.func.functionalize(written_in_place)(D(X)),
    "autograd.functional.jacobian": lambda D: torch.autograd.functional.jacobian(torch.tanh, D(X)),
    "autograd.functional.jacobian, vectorized": lambda D: torch.autograd.functional.jacobian(torch.tanh, D(X), vectorize=True),
    "autograd.functional.hessian": lambda D: torch.autograd.functional.hessian(lambda x: x.pow(3).sum(), D(X)),
    "autograd.functional.vhp": lambda D: list(torch.autograd.functional.vhp(lambda x: x.pow(3).sum(), D(X), D(X))),
}


@pytest.mark.parametrize("placement", PLACEMENTS, ids=str)
@pytest.mark.parametrize("name", PROGRAMS)
def test_transforms(expect_as_plain, name, placement):
    expect_as_plain(PROGRAMS[name], placement)


@pytest.mark.parametrize("placement", PLACEMENTS, ids=str)
def test_batched_gradients(expect_as_plain, placement):
    def program(D):
        x = D(X).requires_grad_()
        y = (x @ D(W, Replicate())).tanh()
        vectors = torch.stack([torch.ones_like(y), y.detach(), y.detach() * 2])
        (batched,) = torch.autograd.grad(y, x, vectors, is_grads_batched=True, retain_graph=True)
        (mapped,) = vmap(lambda v: torch.autograd.grad(y, x, v, retain_graph=True))(vectors)
        y.sum().backward()
        return [batched, mapped, x.grad]

    expect_as_plain(program, placement)


def test_a_plain_tensor_of_the_program_is_an_error_in_vmap_as_elsewhere():
    def rank_program(rank):
        mesh = weft.init_device_mesh("cpu", (2,))
        x = weft.distribute_tensor(X, mesh, [Shard(0)])
        for program in (lambda x: x + torch.ones(6), lambda x: x + W[:, 0]):
            with pytest.raises(ValueError, match="cannot be mixed"):
                vmap(program)(x)
        with pytest.raises(ValueError, match="cannot be mixed"):
            vmap(torch.add)(x, X)
        with weft.replicate_plain():
            torch.testing.assert_close(vmap(torch.add)(x, X).full_tensor(), X + X)

    weft.run_on_ranks(2, rank_program)


def test_a_tensor_inside_of_a_transform_cannot_be_distributed():
    def rank_program(rank):
        mesh = weft.init_device_mesh("cpu", (2,))
        with pytest.raises(TypeError, match="inside of a transform of torch.func"):
            vmap(lambda x: weft.distribute_tensor(x, mesh, [Shard(0)]))(torch.ones(2, 4))

    weft.run_on_ranks(2, rank_program)
