"""Small programs at which tensor-parallel transforms go wrong: list arguments, sizes written in calls, several outputs, inputs
that are no activations."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

from .model import BATCH, LENGTH, Model, Plan


class Layers(nn.Module):
    """Linear layers `a`, `b`, ... of a width, and a function of them."""

    def __init__(self, forward, count=1, width=16, **parts):
        super().__init__()
        self.function = forward
        for name in "abcd"[:count]:
            setattr(self, name, nn.Linear(12 if name == "a" else width, width))
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *inputs):
        return self.function(self, *inputs)


def flat(batch=4):
    return (torch.randn(batch, 12),)


def deep(batch=2, length=4):
    return (torch.randn(batch, length, 12),)


OPEN = {"dynamic_shapes": (({0: BATCH},),), "other_sizes": {"batch": 7}}
OPEN_FROM_THREE = {"dynamic_shapes": (({0: Dim("batch", min=3, max=64)},),), "other_sizes": {"batch": 5}}
OPEN_DEEP = {"dynamic_shapes": (({0: BATCH, 1: LENGTH},),), "other_sizes": {"batch": 3, "length": 5}}
COLWISE = {"a": "colwise"}


def case(name, function, plans, inputs=flat, count=1, width=16, training=False, parts=dict, **dynamic):
    """A plan, several, or the collectives expected of the plan that shards `a` by its outputs."""
    if isinstance(plans, dict):
        plans = (Plan("colwise", COLWISE, plans),)
    elif isinstance(plans, Plan):
        plans = (plans,)
    dynamic = dynamic or (OPEN if inputs is flat else OPEN_DEEP if inputs is deep else {})
    return Model(name, lambda: Layers(function, count, width, **parts()), inputs, plans, training, **dynamic)


def pair(model, x):
    return model.b(F.relu(model.a(x)))


def expanded(model, x):
    y = model.a(x)
    return y.unsqueeze(0).expand(3, y.shape[0], y.shape[1]) * 2.0


def joined(model, x):
    y, z = model.a(x), torch.sigmoid(model.a(x + 1))
    return torch.cat([y, y, z], 1)


def stacked(model, x):
    return torch.stack([model.a(x), torch.ones(x.shape[0], 16), x.new_zeros(x.shape[0], 16)], 1)


def summed(model, x):
    return model.a(x).sum()


def averaged(model, x):
    y = model.a(x)
    return y.mean(), y.mean(1), y.var(1)


def normed(model, x):
    y = model.norm(model.a(x))
    return (y, model.norm.running_mean.clone(), model.norm.running_var.clone()) if model.training else y


def with_parameter(model, x):
    return model.a(x), model.a.weight, model.a.bias


def scaled_by_buffer(model, x):
    return model.a(x) * model.scale


def by_number(model, x, number):
    return model.a(x) * number + x.shape[0]


def repeated_operand(model, x):
    y = model.a(x)
    return torch.where(y > 0, y, model.b(y))


def two_readers(model, x):
    y = model.b(F.relu(model.a(x)))
    return F.relu(y), torch.sigmoid(y)


def returned_twice(model, x):
    y = model.a(x)
    return y, y


def same_sized(model, x):
    y = model.a(x)
    return torch.full_like(y, 2.0), y.new_zeros(y.shape), torch.zeros(y.shape)


def halves(model, x):
    first, second = model.a(x).chunk(2, -1)
    return F.silu(first) * second


def viewed(model, x):
    y = model.a(x).view(x.shape[0], x.shape[1], 4, 4)
    return model.b(y.transpose(1, 2).reshape(x.shape[0], 4, -1, 4).transpose(1, 2).flatten(-2))


def best(model, x):
    y = model.a(x)
    values, places = y.topk(3, dim=0)
    largest, place = y.max(dim=1)
    return values, places, largest, place


def chained_softmax(model, x):
    return F.softmax(model.a(x), -1), F.softmax(model.a(x), 0)


def quadratic(model, x):
    """Products of two activations that are sharded alike, over the sharded dim and over the other."""
    y = model.a(x)
    return y @ y.transpose(-1, -2), y.transpose(-1, -2) @ y


def counted(model, x):
    """A buffer of no dims that is written to, and numbers read from it."""
    model.calls.add_(1)
    return model.a(x) * model.calls, model.calls.clone()


def written(model, x):
    x.mul_(2)
    return model.a(x), x + 0


def nested(model, inputs):
    first, rest = inputs["first"], inputs["rest"]
    return {"sum": model.a(first + rest[0]), "parts": (rest[1], [model.a(rest[1])])}


def nested_inputs(batch=4):
    x = torch.randn(3, batch, 12).unbind(0)
    return ({"first": x[0], "rest": (x[1], x[2])},)


def numbered(number):
    return lambda: (torch.randn(4, 12), number)


PAIR = {"a": "colwise", "b": "rowwise"}
OPEN_NESTED = {"dynamic_shapes": (({"first": {0: BATCH}, "rest": ({0: BATCH}, {0: BATCH})},),), "other_sizes": {"batch": 6}}

MODELS = [
    case("linear_of_3d", pair, Plan("pair", PAIR, {"all_reduce": 1}), deep, count=2),
    case("linear_of_3d_uneven", pair, Plan("pair", PAIR, {"all_reduce": 1}), deep, count=2, width=18),
    case("expand_of_shard", expanded, {"all_gather": 1}),
    # The shards are joined locally, and gathered together.
    case("cat_of_shard", joined, {"all_gather": 1}),
    # The replicated operand of the stack is sharded without communication.
    case("stack_of_shard_and_replica", stacked, {"all_gather": 1}),
    case("sum_of_shard", summed, {"all_reduce": 1}),
    case("means_of_shard", averaged, Plan("colwise", COLWISE)),
    case("batch_norm_eval", normed, Plan("colwise", COLWISE), parts=lambda: {"norm": nn.BatchNorm1d(16)}),
    case("batch_norm_train", normed, Plan("colwise", COLWISE), parts=lambda: {"norm": nn.BatchNorm1d(16)}, training=True),
    case("parameter_goes_out", with_parameter, {"all_gather": 3}),
    case("int_input", by_number, {"all_gather": 1}, numbered(3)),
    case("float_input", by_number, {"all_gather": 1}, numbered(0.5)),
    case(
        "symbolic_int_input",
        by_number,
        {"all_gather": 1},
        lambda number=5: (torch.randn(4, 12), number),
        dynamic_shapes=((None, Dim.DYNAMIC),),
        other_sizes={"number": 7},
    ),
    case("repeated_operand", repeated_operand, Plan("both", {"a": "colwise", "b": "colwise"}), count=2),
    # One sum for both who read it.
    case("two_readers", two_readers, Plan("pair", PAIR, {"all_reduce": 1}), count=2),
    case("returned_twice", returned_twice, {"all_gather": 1}),
    case("filled_alike", same_sized, Plan("colwise", COLWISE)),
    case("halves_of_shard", halves, Plan("colwise", COLWISE)),
    case("halves_of_parts", halves, Plan("parts", {"a": {"style": "colwise", "parts": 2}}, {"all_gather": 1})),
    case("views_of_shard", viewed, Plan("pair", {"a": {"style": "colwise"}, "b": "rowwise"}), deep, count=2),
    case("best_of_shard", best, Plan("colwise", COLWISE), **OPEN_FROM_THREE),
    case("softmax_of_shard", chained_softmax, Plan("colwise", COLWISE)),
    case("products_of_shard", quadratic, Plan("colwise", COLWISE), deep),
    case("nested_containers", nested, Plan("colwise", COLWISE, {"all_gather": 2}), nested_inputs, **OPEN_NESTED),
    case("written_input", written, {"all_gather": 1}),
    case("one_feature", lambda model, x: model.a(x), {"all_gather": 1}, width=1),
]


class WithBuffers(Layers):
    def __init__(self, forward, is_persistent):
        super().__init__(forward)
        self.register_buffer("scale", torch.rand(16), persistent=is_persistent)
        self.register_buffer("calls", torch.tensor(3), persistent=is_persistent)


for persistent in (True, False):
    kind = "persistent" if persistent else "non_persistent"
    PLAN = Plan("colwise", COLWISE, {"all_gather": 1})
    for what, function in (("buffer", scaled_by_buffer), ("counter", counted)):
        MODELS.append(
            Model(
                f"{kind}_{what}",
                lambda function=function, persistent=persistent: WithBuffers(function, persistent),
                flat,
                (PLAN,),
                **OPEN,
            )
        )
