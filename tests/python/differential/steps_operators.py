"""Steps that make new values: operators on one, two or several tensors."""

import re

import torch

UNARY = [
    "-{x}", "{x}.abs()", "{x}.tanh()", "{x}.sigmoid()", "{x}.relu()", "F.gelu({x})", "F.silu({x})", "{x}.sin()",
    "{x}.clamp(-1, 1)", "{x}.clamp(-3, 3).exp()", "({x}.abs() + 1).log()", "({x}.abs() + 1).sqrt()", "{x} + 1",
    "1.5 - {x}", "{x} * 2.5", "{x} / 3", "2 / ({x}.abs() + 1)", "{x} + True", "{x} ** 2", "{x}.sum()", "{x}.mean()",
    "{x}.amax()", "{x}.sum() + 1.5", "{x}.sum() * 2", "{x}.norm()", "{x}.std()", "{x}.float()", "{x}.double()",
    "{x}.clone()", "{x}.contiguous()", "{x}.flatten().cumsum(0)", "torch.zeros_like({x}) + {x}",
    "{x}.new_ones({shape}) + {x}", "torch.where({x} > 0.3, {x}, -{x})", "{x}.masked_fill({x} > 0.3, 0.5)",
    "F.leaky_relu({x})", "{x}.logsumexp(-1)", "{x} + {x}.sum()", "{x} - {x}.mean()", "{x}.flip(0)", "{x}.nan_to_num()",
    "torch.atleast_2d({x})", "{x}.argmax()", "({x} > 0.3).sum()", "({x} > 0.3).any()",
    "{x}.to(torch.bfloat16).double()", "{x}.sum().item()", "{x} * {x}.sum().item()",
]  # fmt: skip
ALONG = [
    "{x}.sum({d})", "{x}.mean({d}, keepdim=True)", "{x}.amax({d})", "{x}.amin({d}, keepdim=True)", "{x}.softmax({d})",
    "{x}.log_softmax({d})", "{x}.cumsum({d})", "{x}.sort({d}).values", "{x}.max({d}).values", "{x}.argmin({d})",
    "{x}.logsumexp({d})", "{x}.var({d}, correction=0)", "{x}.norm(dim={d})", "{x}.flip({d})", "{x}.roll(1, {d})",
    "{x}.topk(1, {d}).values", "torch.cat([{x}, {x}], {d})", "torch.stack([{x}, {x}], {d})",
    "{x}.repeat_interleave(2, {d})", "{x}.index_select({d}, indices([0]))", "{x}.prod({d})",
    "F.normalize({x}, dim={d})", "{x}.std({d}, correction=0)", "{x}.unbind({d})[-1] * 2", "{x}.split(2, {d})[0] + 1",
    "{x}.diff(dim={d})", "{x}.any({d})", "{x}.tril()", "{x}.triu(1)", "F.layer_norm({x}, {x}.shape[-1:])",
    "F.pad({x}, (1, 1))",
]  # fmt: skip
BINARY = [
    "{x} + {y}", "{x} - {y}", "{x} * {y}", "{x} / ({y}.abs() + 1)", "torch.maximum({x}, {y})",
    "torch.minimum({x}, {y})", "torch.where({x} > {y}, {x}, {y})", "torch.lerp({x}, {y}, 0.5)",
    "torch.addcmul({x}, {x}, {y}, value=0.5)", "{x} @ {y}", "torch.cat([{x}, {y}], {d})",
    "torch.stack([{x}, {y}], {d})", "torch.add({x}, {y}, alpha=2)", "{x} @ {y}.mT", "F.linear({x}, {y})",
    "torch.outer({x}.flatten(), {y}.flatten())", "{x}.sum() + {y}", "F.mse_loss({x}, {y})",
    "torch.einsum('ij,kj->ik', {x}, {y})", "torch.hypot({x}, {y})", "torch.dot({x}.flatten(), {y}.flatten())",
    "{x} == {y}", "torch.bmm({x}, {y})", "F.cross_entropy({x}, {y}.softmax(-1))",
    "F.scaled_dot_product_attention({x}, {y}, {x})", "torch.addmm({x}, {x}, {y})", "{x}.expand_as({y})",
    "torch.broadcast_tensors({x}, {y})[0]",
]  # fmt: skip
OF_INTEGERS = [
    "{x} + 1", "{x} + 1.5", "{x} * 2", "{x} / 2", "{x} * 0.5", "{x}.sum()", "{x}.sum() + 1.5", "{x}.max()",
    "{x} == {y}", "{x} + {y}", "{x} * {y}", "{x} > 0", "{x}.bool()", "{x}.double()", "{x}.any()", "{x}.all()",
    "{x}.cumsum(0)", "{x}.sum(0)", "{x}.float() + {y}", "~({x} > 0)", "({x} > 0) & ({y} > 0)", "{y} * ({x} > 0)",
    "torch.where({x} > 0, {y}, 1)", "{x}.argmax()", "{x}.sort(0).values", "{x} - {y}", "{x} % 3", "{x} // 2",
    "{x}.clamp(0, 2)", "{x}.sum() / 3", "{x}.float().mean()", "{x}.sum().item()",
]  # fmt: skip


# Those that choose among elements may choose either of two that are the same but for their rounding, and those with a kink
# or a step have another gradient or value on its other side.
CHOOSING = re.compile(r"max|min|sort|topk|[>=] {y}")
KINKED = re.compile(r"abs|relu|clamp|norm|> 0.3|sign|std|any")
KINKS = torch.tensor([-3, -1, 0, 0.3, 1, 3], dtype=torch.float64)
ROUNDING = 1e-5
GRID = 2.0**-10  # sums of multiples of it are exact up to LARGEST, in float32 too


def is_number(value):
    return value.is_floating_point() and value.device.type != "meta"


def is_exact(value):
    """Whether all elements are on a grid on which sums are exact, in whatever order ranks add their terms."""
    scaled = value.detach().double() / GRID
    return bool((scaled == scaled.round()).all())


def is_decided(text, x, y=None):
    """Whether what an operator compares differs by more than its rounding."""
    given = [value for value in (x, y) if value is not None]
    if all(is_exact(value) for value in given):
        return True
    values = torch.cat([value.detach().double().flatten() for value in given])
    is_chosen = not CHOOSING.search(text) or bool((values.sort().values.diff() > ROUNDING).all())
    is_beside_kinks = not KINKED.search(text) or bool(((values.unsqueeze(-1) - KINKS).abs() > ROUNDING).all())
    return is_chosen and is_beside_kinks


def divides_by_norm_of_zeros(text, x, d):
    """Whether a vector of zeros is normalized. Partial terms that add up to zero are divided by 1e-12 one by one, which leaves
    their rounding as a number of any size."""
    return "normalize" in text and bool((x.detach().double().norm(dim=d) <= ROUNDING).any())


def unary(b):
    x, text = b.pick(is_number), b.random.choice(UNARY)
    if x is None or not is_decided(text, b.namespace[x]):
        return None
    return f"{b.fresh()} = " + text.format(x=x, shape=tuple(b.namespace[x].shape))


def along(b):
    x, text = b.pick(lambda value: is_number(value) and value.ndim > 0), b.random.choice(ALONG)
    if x is None or not is_decided(text, b.namespace[x]):
        return None
    d = dim_of(b, x)
    return None if divides_by_norm_of_zeros(text, b.namespace[x], d) else f"{b.fresh()} = " + text.format(x=x, d=d)


def binary(b):
    x = b.pick(is_number)
    if x is None:
        return None
    like = b.namespace[x]
    y = b.pick(lambda value: is_number(value) and (value.shape == like.shape or b.chance(0.3)))
    d = dim_of(b, x) if like.ndim else 0
    if y and like.numel() == 0 and like.dtype != b.namespace[y].dtype:
        return None  # torch does not look at the dtypes of a product of nothing
    text = b.random.choice(BINARY)
    if y is None or not is_decided(text, like, b.namespace[y]):
        return None
    return f"{b.fresh()} = " + text.format(x=x, y=y, d=d)


def autocast(b):
    """A sum of products of 0, 1 and -1. Ranks round the sums of their own terms to bfloat16, which is exact for up to 256 of
    these; of other terms that cancel each other, hardly a digit of the sum would be left to compare."""
    x = b.pick(lambda value: is_number(value) and value.ndim == 2 and value.numel() <= 256 and is_decided("sign", value))
    if x is None:
        return None
    signs, y = b.fresh(), b.fresh()
    b.add(f"{signs} = {x} + ({x}.sign() - {x}).detach()")
    return f"with torch.autocast('cpu', torch.bfloat16): {y} = F.linear({signs}, {signs}).sum(0)"


def dim_of(b, x):
    ndim = b.namespace[x].ndim
    return b.random.randrange(-ndim, ndim)


def integer(b):
    x = b.pick(lambda value: not value.is_floating_point() and value.device.type != "meta")
    y = b.pick(lambda value: x and (value.shape == b.namespace[x].shape or value.ndim == 0) and value.device.type != "meta")
    return x and f"{b.fresh()} = " + b.random.choice(OF_INTEGERS).format(x=x, y=y)


def redistribute(b):
    x = b.pick(is_number)
    return x and f"{b.fresh()} = redistribute({x}, {b.placements(b.namespace[x].ndim)})"


def gradient(b):
    """A gradient with a graph of its own, which a later step may take the gradient of."""
    of = b.pick(lambda value: value.requires_grad and not value.is_leaf and is_number(value))
    leaf = b.pick(lambda value: value.requires_grad and value.is_leaf)
    return of and leaf and (
        f"{b.fresh()} = torch.autograd.grad({of}.tanh().sum(), {leaf}, create_graph=True, allow_unused=True)[0]"
    )  # fmt: skip


STEPS = [(unary, 4), (along, 4), (binary, 5), (integer, 1), (redistribute, 1), (gradient, 1)]
