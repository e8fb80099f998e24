"""Steps that take views, and views of views."""

from differential.steps_operators import dim_of

OF_ANY = [
    "{x}.detach()", "{x}.view_as({x})", "{x}.unsqueeze(0)", "{x}.squeeze()", "{x}.flatten()", "{x}.view(-1)",
    "{x}.reshape(-1)", "{x}[...]", "{x}[None]", "{x}.expand(2, *{x}.shape)", "{x}.data", "{x}.reshape({x}.numel(), 1)",
]  # fmt: skip
ALONG = [
    "{x}.select({d}, {i})", "{x}.narrow({d}, {a}, {n})", "{x}.transpose({d}, 0)",
    "{x}.transpose(0, -1).transpose({d}, 0)", "{x}.movedim({d}, 0)", "{x}.split({k}, {d})[-1]", "{x}.chunk(2, {d})[0]",
    "{x}.chunk(2, {d})[-1]", "{x}.unbind({d})[{i}]", "{x}.unflatten({d}, (-1, 1))", "{x}.tensor_split(2, {d})[-1]",
    "{x}.unfold({d}, {k}, 1)", "{x}.transpose({d}, 0).reshape(-1)", "{x}.flatten({d})", "{x}.unsqueeze({d})",
    "{x}.swapaxes({d}, -1)", "{x}.mT", "{x}.transpose(0, -1)[0]",
]  # fmt: skip
OF_FIRST = [
    "{x}[{a}:{b}]", "{x}[{i}]", "{x}[-1]", "{x}[{a}:]", "{x}[:{b}]", "{x}[::2]", "{x}[1::2]", "{x}[..., {j}]",
    "{x}[..., :1]", "{x}[{a}:{b}][0]", "{x}[..., 1:]", "{x}.t()", "{x}.diagonal()",
    "{x}.permute(*range({x}.ndim)[::-1])", "{x}[:, 1:][{a}:{b}]",
]  # fmt: skip


def view(b):
    x = b.pick(lambda value: value.device.type != "meta" and (value.ndim > 0 or b.chance(0.2)))
    if x is None:
        return None
    value = b.namespace[x]
    if value.ndim == 0 or b.chance(0.2):
        return f"{b.fresh()} = " + b.random.choice(OF_ANY).format(x=x)
    first, last, d = value.shape[0], value.shape[-1], dim_of(b, x)
    size = value.shape[d]
    if min(first, last, size) == 0:
        return None
    if b.chance(0.5):
        a, i = b.random.randrange(size), b.random.randrange(size)
        n, k = b.random.randint(1, size - a), b.random.randint(1, size)
        return f"{b.fresh()} = " + b.random.choice(ALONG).format(x=x, d=d, i=i, a=a, n=n, k=k)
    a = b.random.randrange(first)
    text = b.random.choice(OF_FIRST)
    return f"{b.fresh()} = " + text.format(
        x=x, a=a, b=b.random.randint(a + 1, first), i=b.random.randrange(first), j=b.random.randrange(last)
    )


STEPS = [(view, 1)]
