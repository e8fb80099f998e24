"""Steps that write to a tensor: in place, through views, and around autograd."""

import torch
from differential.steps_operators import is_number

IN_PLACE = [
    "{x}.add_(1.5)", "{x}.mul_(0.5)", "{x}.zero_()", "{x}.fill_(2)", "{x}.tanh_()", "{x}.clamp_(-1, 1)", "{x} += 1",
    "{x} *= 2", "{x}.neg_()", "{x}.relu_()", "{x}.sub_(0.25)", "{x}.div_(2)", "{x}.copy_({x} + 1)",
    "{x}.copy_({x}.tanh())", "torch.nn.init.constant_({x}, 0.5)", "torch.nn.init.zeros_({x})",
    "torch.nn.init.ones_({x})", "torch.nn.init.eye_({x})", "{x}[{a}:{b}] = 2.0", "{x}[{i}] = -1.0",
    "{x}[..., :1] = 0.5", "{x}[{x} > 0.3] = 0.25", "{x}[{a}:{b}] += 1", "{x}[{i}].mul_(2)",
    "{x}.masked_fill_({x} > 0.3, 0.5)", "{x}.index_fill_(0, indices([{i}]), 3.0)", "{x}[:, :1].fill_(1.25)",
    "{x}[::2] = 0.75", "{x}.flatten()[0] = 4.0", "{x}.view(-1).add_(1)", "{x}.t().add_(1)",
    "{x}.transpose(0, -1).mul_(2)", "{x}.diagonal().fill_(1)", "{x}.cumsum_(0)", "{x}.cumsum_(-1)", "{x}.t().cumsum_(0)",
    "{x}.triu_(1)", "{x}.exp_().clamp_(max=2)", "torch.cumsum({x}, 0, out={x})", "{x}[[{i}]] = 1.5", "{x}.tril_()",
    "{x}.square_().clamp_(max=3)", "{x}[None].add_(1)", "{x}.unsqueeze(-1).mul_(0.5)", "{x}.normal_().zero_()",
    "torch.nn.init.normal_({x}).zero_()", "{x}.swapaxes(0, -1)[0] = 1.0", "torch.add({x}, 1, out={x})",
]  # fmt: skip
OF_TWO = [
    "{x}.copy_({y})", "{x}.add_({y})", "{x}.mul_({y})", "{x} += {y}", "torch.add({x}, {y}, out={x})",
    "torch.mul({y}, 2, out={x})", "torch.sub({y}, {x}, out={x})", "{x}[{a}:{b}] = {y}[{a}:{b}]", "{x}[{i}] = {y}[{i}]",
    "{x}.lerp_({y}, 0.5)", "{x}.addcmul_({y}, {y})", "{x}.masked_scatter_({y} > 0.3, {y})",
    "torch.where({y} > 0, {y}, {x}, out={x})", "{x}[{y} > 0.3] = 0.5", "{x}[...] = {y}",
    "{x}.index_copy_(0, indices([{i}]), {y}[{i}:{i}+1])", "{x}.index_add_(0, indices([{i}]), {y}[{i}:{i}+1])",
    "{x}.sub_({y}, alpha=2)", "torch.tanh({y}, out={x})", "{x}.transpose(0, -1).copy_({y}.transpose(0, -1))",
]  # fmt: skip
UNSEEN = [
    "{x}.data.add_(1)", "{x}.data.mul_(2)", "{x}.data.copy_({y})", "{x}.data = {y}.detach().clone()",
    "{x}.data = {y}.data * 2", "{x}.detach().add_(1)", "{x}.detach().copy_({y}.detach())", "{x}.data[{a}:{b}] = 2.0",
    "{x}.detach()[{i}] = 1.0", "{x}.data.zero_()", "{x}.data = {x}.data + 1", "{x}.detach().view(-1).mul_(2)",
]  # fmt: skip
FOREACH = [
    "torch._foreach_add_([{x}], 1.0)", "torch._foreach_mul_([{x}], 2.0)", "torch._foreach_copy_([{x}], [{y}])",
    "torch._foreach_add_([{x}], [{y}])", "torch._foreach_lerp_([{x}], [{y}], 0.5)", "torch._foreach_mul_([{x}], [{y}])",
    "torch._foreach_zero_([{x}])", "torch._foreach_sub_([{x}, {x}], 1.0)",
    "torch._foreach_addcmul_([{x}], [{y}], [{y}])", "torch._foreach_neg_([{x}])", "torch._foreach_tanh_([{x}])",
    "torch._foreach_clamp_max_([{x}], 1.0)",
]  # fmt: skip
# Writes that torch counts. It does not see those through `.data` or a numpy array of a plain tensor: where a rank had to
# copy a view (a slice of a sharded dim), neither the copy nor the tensor it was taken of would know of the other's.
LOCAL = [
    "local({x}).detach().mul_(2)", "local({x}).detach()[...].mul_(0.5)", "torch._foreach_mul_([local({x}).detach()], 2.0)",
]  # fmt: skip
STRUCTURE = [
    "{x}.requires_grad_()", "{x}.requires_grad_(False)", "{x}.t_()", "{x}.unsqueeze_(0)", "{x}.squeeze_()",
    "{x}.transpose_(0, -1)", "torch.utils.swap_tensors({x}, {y})", "{x}.set_({y})", "{x}.resize_(1)", "{x}.detach_()",
    "{x}.swapaxes_(0, -1)",
]  # fmt: skip


# What these give, or whether they raise, is not defined where source and target share memory.
NEEDS_OTHER_MEMORY = [text for text in OF_TWO if "masked_scatter_" in text or "index_" in text or "transpose" in text]


def shares_memory(x, y):
    return x.untyped_storage().data_ptr() == y.untyped_storage().data_ptr()


def places(x):
    """Where each element is in memory, in the order of the elements."""
    found = torch.tensor(x.storage_offset())
    for size, stride in zip(x.shape, x.stride()):
        found = found.unsqueeze(-1) + torch.arange(size) * stride
    return found.flatten()


def is_expanded(x):
    """Torch raises where it is written to."""
    return any(size > 1 and stride == 0 for size, stride in zip(x.shape, x.stride()))


def is_defined(x, y):
    """Whether torch says what a write to x that reads y gives: not where it writes an element twice, or reads elements of y
    that it writes as others of x."""
    written = places(x)
    if not is_expanded(x) and len(written.unique()) < len(written):
        return False
    if y is None or not shares_memory(x, y) or torch.equal(written, places(y)):
        return True
    return not torch.isin(places(y), written).any()


def write_from(texts):
    def write(b, target=None):
        x = target or b.pick(is_number)
        if x is None:
            return None
        value = b.namespace[x]
        y = b.pick(lambda other: is_number(other) and other.shape == value.shape and other.dtype == value.dtype)
        text = b.random.choice(texts)
        if text in NEEDS_OTHER_MEMORY and shares_memory(value, b.namespace[y]):
            return None
        if not is_defined(value, b.namespace[y] if "{y}" in text else None):
            return None
        size = value.shape[0] if value.ndim else 1
        if size == 0:
            return None
        a = b.random.randrange(size)
        text = text.format(x=x, y=y, a=a, b=b.random.randint(a + 1, size), i=b.random.randrange(size))
        if b.program.mode == "grad" and value.is_leaf and value.requires_grad and b.chance(0.9):
            text = f"with torch.no_grad(): {text}"
        elif b.program.mode == "no_grad" and b.chance(0.15):
            text = f"with torch.inference_mode(): {text}"
        return text

    return write


def local_write(b, target=None):
    """Not to expanded tensors: a rank that holds nothing of one has nothing to refuse."""
    x = target or b.pick(is_number)
    may_write = x and is_defined(b.namespace[x], None) and not is_expanded(b.namespace[x])
    return b.random.choice(LOCAL).format(x=x) if may_write else None


STRUCTURE_STEP = (write_from(STRUCTURE), 1)
CONTENT_STEPS = [
    (write_from(IN_PLACE), 5), (write_from(OF_TWO), 4), (write_from(UNSEEN), 3), (write_from(FOREACH), 3), (local_write, 1),
]  # fmt: skip
STEPS = [*CONTENT_STEPS, STRUCTURE_STEP]
