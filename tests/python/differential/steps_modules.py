"""Programs of parallel modules whose inputs and parameters are written to between calls."""

from differential import steps_operators, steps_views, steps_writes
from differential.modules import PLANS
from differential.steps_training import optimizer

MODULE_WRITES = [
    "{m}.zero_grad(set_to_none=True)", "{m}.zero_grad(set_to_none=False)", "{m}.load_state_dict({m}.state_dict())",
    "with torch.no_grad(): [p.mul_(0.5) for p in {m}.parameters()]", "[p.data.mul_(0.5) for p in {m}.parameters()]",
    "with torch.no_grad(): torch._foreach_mul_(list({m}.parameters()), 0.5)", "{m}.requires_grad_({flag})",
    "{m}.eval()", "[torch.nn.init.constant_(p, 0.125) for p in {m}.parameters()]",
    "{m}.load_state_dict({m}.state_dict(), assign=True)",
    "[p.register_hook(lambda g: g * 2) for p in {m}.parameters()]", "{m}.register_forward_hook(lambda m, i, o: o * 2)",
    "torch.nn.utils.clip_grad_norm_({m}.parameters(), 0.5)", "[local(p).detach().mul_(0.5) for p in {m}.parameters()]",
]  # fmt: skip
FORWARDS = [
    "{y} = {m}({x})", "{y} = {m}({x})", "{y} = checkpoint({m}, {x})", "with torch.no_grad(): {y} = {m}({x}) * 1",
    "{y} = {m}({x}).tanh()", "{y} = {m}({x}) + {m}({x})", "{y} = {m}({x}.detach())",
    "with torch.autocast('cpu', torch.bfloat16): {y} = {m}({x})",
]  # fmt: skip
GRADIENT = "{y} = torch.autograd.grad({of}, {x}, create_graph=True, allow_unused=True)[0]"


def build(b):
    plan = b.random.choice(sorted(PLANS))
    m, width, hidden = b.fresh("m"), b.choice(4, 6), b.choice(8, 12)
    b.add(f"{m} = module({plan.split()[0]!r}, {plan!r}, {width}, {hidden})")
    shape = (b.choice(2, 3), b.choice(4, 5), width)
    x = b.input(shape, partial=b.chance(0.3))
    b.input(shape, grad=False)
    o = b.fresh("o") if b.program.mode == "grad" else None
    b.add(o and f"{o} = {optimizer(b, m + '.parameters()')}")
    for _ in range(b.random.randint(4, 10)):
        step = b.random.random()
        if step < 0.35:
            b.add(b.random.choice(FORWARDS).format(y=b.fresh(), m=m, x=x))
        elif step < 0.5:
            b.add(b.random.choice(MODULE_WRITES).format(m=m, flag=b.chance(0.7)))
        elif step < 0.7:
            write = b.random.choices(*zip(*steps_writes.CONTENT_STEPS))[0]
            b.add(write(b, x if b.chance(0.6) else None))
        elif step < 0.8:
            b.add(steps_views.view(b) if b.chance(0.5) else steps_operators.binary(b))
        elif step < 0.9 and o:
            b.add(f"{o}.step()")
        elif o:
            b.backward()
            second_order = b.pick(lambda value: value.requires_grad and not value.is_leaf and value.numel() == 1)
            b.add(second_order and GRADIENT.format(y=b.fresh(), of=second_order, x=x))
    b.add(f"for p in {m}.parameters(): read(p), read(p.grad)")
