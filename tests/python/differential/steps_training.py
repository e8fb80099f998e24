"""Programs of training: parameters, losses and optimizers."""

from differential import steps_views, steps_writes

OPTIMIZERS = [
    "SGD({p}, lr=0.1{how})", "SGD({p}, lr=0.1, momentum=0.9{how})", "Adam({p}, lr=0.1{how})", "AdamW({p}, lr=0.1{how})",
    "Adagrad({p}, lr=0.1{how})", "RMSprop({p}, lr=0.01{how})", "Adamax({p}, lr=0.01{how})", "NAdam({p}, lr=0.01{how})",
    "RAdam({p}, lr=0.01{how})", "Adadelta({p}{how})", "ASGD({p}, lr=0.1{how})", "Rprop({p}, lr=0.1{how})",
    "AdamW({p}, lr=0.1, amsgrad=True{how})", "SGD({p}, lr=0.1, nesterov=True, momentum=0.5, weight_decay=0.1{how})",
]  # fmt: skip
WITH_FUSED = ("SGD", "AdamW(", "Adam(", "Adagrad")
LOSSES = [
    "({x} * {p}).tanh().sum()", "({p} ** 2).mean()", "F.mse_loss({p}, {x})", "({p} - {x}).abs().sum()",
    "({p}.sum() * {x}).sum().tanh()",
]  # fmt: skip
BETWEEN = [
    "{o}.zero_grad(set_to_none={flag})", "{o}.load_state_dict({o}.state_dict())", "read({p})", "read({p}.grad)",
    "read_state({o})", "{p}.grad = None", "{p}.grad.mul_(0.5)", "{p}.register_hook(lambda g: g * 2)",
    "{p}.register_post_accumulate_grad_hook(lambda p: p.grad.mul_(0.5))", "torch.nn.utils.clip_grad_norm_({all}, 0.5)",
    "torch.nn.utils.clip_grad_norm_({all}, 0.5, foreach={flag})", "torch.nn.utils.clip_grad_value_({all}, 0.1)",
]  # fmt: skip


def optimizer(b, parameters):
    text = b.random.choice(OPTIMIZERS)
    how = b.choice("", ", foreach=True", ", foreach=False", *([", fused=True"] * 2 if text.startswith(WITH_FUSED) else []))
    return "torch.optim." + text.format(p=parameters, how=how)


def build(b):
    shape = b.shape(b.random.choice([1, 2, 2, 3]))
    x = b.input(shape, grad=False)
    parameters = [
        b.input(shape if b.chance(0.7) else None, letter="p", partial=b.chance(0.2), grad=True)
        for _ in range(b.random.randint(1, 2))
    ]
    o, all_parameters = b.fresh("o"), f"[{', '.join(parameters)}]"
    b.add(f"{o} = {optimizer(b, all_parameters)}")
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
            b.add(b.random.choice(BETWEEN).format(o=o, p=p, all=all_parameters, flag=b.chance(0.5)))
        else:
            b.add(b.random.choices(*zip(*steps_writes.STEPS))[0](b))
