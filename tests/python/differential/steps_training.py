"""Steps of training: parameters, losses, optimizers, and parallel modules."""

from differential import steps_operators, steps_views, steps_writes

OPTIMIZERS = [
    "SGD({p}, lr=0.1{how})", "SGD({p}, lr=0.1, momentum=0.9{how})", "Adam({p}, lr=0.1{how})", "AdamW({p}, lr=0.1{how})",
    "Adagrad({p}, lr=0.1{how})", "RMSprop({p}, lr=0.01{how})", "Adamax({p}, lr=0.01{how})", "NAdam({p}, lr=0.01{how})",
    "RAdam({p}, lr=0.01{how})", "Adadelta({p}{how})", "ASGD({p}, lr=0.1{how})", "Rprop({p}, lr=0.1{how})",
    "AdamW({p}, lr=0.1, amsgrad=True{how})", "SGD({p}, lr=0.1, nesterov=True, momentum=0.5, weight_decay=0.1{how})",
]  # fmt: skip
WITH_FUSED = ("SGD", "AdamW(", "Adam(", "Adagrad")
LOSSES = ["({x} * {p}).tanh().sum()", "({p} ** 2).mean()", "F.mse_loss({p}, {x})", "({p} - {x}).abs().sum()", "({p}.sum() * {x}).sum().tanh()"]


def optimizer(b, parameters):
    text = b.random.choice(OPTIMIZERS)
    how = b.choice("", ", foreach=True", ", foreach=False", *([", fused=True"] * 2 if text.startswith(WITH_FUSED) else []))
    return "torch.optim." + text.format(p=parameters, how=how)


def build(b):
    shape = b.shape(b.random.choice([1, 2, 2, 3]))
    x = b.input(shape, grad=False)
    parameters = [b.input(shape if b.chance(0.7) else None, letter="p", partial=b.chance(0.2), grad=True) for _ in range(b.random.randint(1, 2))]
    o = b.fresh("o")
    b.add(f"{o} = {optimizer(b, '[' + ', '.join(parameters) + ']')}")
    for _ in range(b.random.randint(4, 12)):
        p = b.random.choice(parameters)
        step = b.random.random()
        if step < 0.3:
            loss = b.random.choice(LOSSES).format(x=x, p=p)
            b.add(f"({loss}).backward()")
            b.add(f"{o}.step()" if b.chance(0.4) else None)
        elif step < 0.5:
            b.add(f"{o}.step()")
        elif step < 0.7:
            view = steps_views.view(b)
            b.add(f"with torch.no_grad(): {view}" if view and b.chance(0.7) else view)
        elif step < 0.85:
            b.add(b.choice(
                f"{o}.zero_grad(set_to_none={b.chance(0.5)})", f"torch.nn.utils.clip_grad_norm_({parameters}, 0.5)".replace("'", ""),
                f"{o}.load_state_dict({o}.state_dict())", f"read({p}.grad)", f"{p}.grad = None", f"{p}.grad.mul_(0.5)", f"read_state({o})",
                f"{p}.register_hook(lambda g: g * 2)", f"{p}.register_post_accumulate_grad_hook(lambda p: p.grad.mul_(0.5))",
                f"torch.nn.utils.clip_grad_value_({parameters}, 0.1)".replace("'", ""), f"read({p})",
                f"torch.nn.utils.clip_grad_norm_({parameters}, 0.5, foreach={b.chance(0.5)})".replace("'", ""),
            ))  # fmt: skip
        else:
            b.add(b.random.choices(*zip(*steps_writes.STEPS))[0](b))


MODULE_WRITES = [
    "{m}.zero_grad(set_to_none=True)", "{m}.zero_grad(set_to_none=False)", "{m}.load_state_dict({m}.state_dict())",
    "with torch.no_grad(): [p.mul_(0.5) for p in {m}.parameters()]", "[p.data.mul_(0.5) for p in {m}.parameters()]",
    "with torch.no_grad(): torch._foreach_mul_(list({m}.parameters()), 0.5)", "{m}.requires_grad_({flag})", "{m}.eval()",
    "[torch.nn.init.constant_(p, 0.125) for p in {m}.parameters()]", "{m}.load_state_dict({m}.state_dict(), assign=True)",
    "[p.register_hook(lambda g: g * 2) for p in {m}.parameters()]", "{m}.register_forward_hook(lambda m, i, o: o * 2)",
    "torch.nn.utils.clip_grad_norm_({m}.parameters(), 0.5)", "[local(p).detach().mul_(0.5) for p in {m}.parameters()]",
]  # fmt: skip
FORWARDS = [
    "{y} = {m}({x})", "{y} = {m}({x})", "{y} = checkpoint({m}, {x})", "with torch.no_grad(): {y} = {m}({x}) * 1",
    "{y} = {m}({x}).tanh()", "{y} = {m}({x}) + {m}({x})", "{y} = {m}({x}.detach())", "with torch.autocast('cpu', torch.bfloat16): {y} = {m}({x})",
]  # fmt: skip


def build_modules(b):
    from differential.modules import PLANS

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
            b.add(second_order and f"{b.fresh()} = torch.autograd.grad({second_order}, {x}, create_graph=True, allow_unused=True)[0]")
    b.add(f"for p in {m}.parameters(): read(p), read(p.grad)")
