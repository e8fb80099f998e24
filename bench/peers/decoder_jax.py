"""The benchmark 'training' in JAX: one process, two host devices, the step of the decoder in bench/python_decoder.py compiled,
weights sharded along them. The case is 'jax', its size the model's dim. Started by bench/run.py in an environment with jax."""

import os
import sys

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from jax.sharding import Mesh, NamedSharding, PartitionSpec  # noqa: E402

from serve import serve  # noqa: E402

VOCABULARY, BLOCKS, HEADS, BATCH, LENGTH = 1024, 4, 8, 2, 64
MESH = Mesh(jax.devices(), ("tp",))
COLUMNS, ROWS, REPLICATED = PartitionSpec(None, "tp"), PartitionSpec("tp", None), PartitionSpec()
COLWISE, ROWWISE = ("query", "key", "value", "gate", "up"), ("output", "down")
LEARNING_RATE, DECAY, EPSILON, FIRST, SECOND = 1e-3, 1e-2, 1e-8, 0.9, 0.999


def placed(value, spec):
    return jax.device_put(value, NamedSharding(MESH, spec))


def parameters(dim):
    keys = iter(jax.random.split(jax.random.PRNGKey(0), 8 * BLOCKS + 2))

    def linear(inputs, outputs, spec):
        bound = inputs**-0.5
        return placed(jax.random.uniform(next(keys), (inputs, outputs), minval=-bound, maxval=bound), spec)

    def block():
        sizes = {"gate": (dim, 4 * dim), "up": (dim, 4 * dim), "down": (4 * dim, dim)}
        linears = {
            name: linear(*sizes.get(name, (dim, dim)), COLUMNS if name in COLWISE else ROWS)
            for name in COLWISE + ROWWISE
        }
        return linears | {name: placed(jnp.ones(dim), REPLICATED) for name in ("attention_norm", "feed_forward_norm")}

    return {
        "tokens": placed(jax.random.normal(next(keys), (VOCABULARY, dim)), REPLICATED),
        "blocks": [block() for _ in range(BLOCKS)],
        "norm": placed(jnp.ones(dim), REPLICATED),
        "logits": linear(dim, VOCABULARY, COLUMNS),
    }


def rms_norm(x, weight):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-5) * weight


def attention(block, x):
    rows, length, dim = x.shape
    query, key, value = (
        (x @ block[name]).reshape(rows, length, HEADS, -1) for name in ("query", "key", "value")
    )
    scores = jnp.einsum("bqhd,bkhd->bhqk", query, key) * (dim // HEADS) ** -0.5
    weights = jax.nn.softmax(jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -jnp.inf), -1)
    return jnp.einsum("bhqk,bkhd->bqhd", weights, value).reshape(rows, length, dim) @ block["output"]


def loss_of(model, tokens):
    x = model["tokens"][tokens[:, :-1]]
    for block in model["blocks"]:
        x = x + attention(block, rms_norm(x, block["attention_norm"]))
        normed = rms_norm(x, block["feed_forward_norm"])
        x = x + (jax.nn.silu(normed @ block["gate"]) * (normed @ block["up"])) @ block["down"]
    likelihoods = jax.nn.log_softmax(rms_norm(x, model["norm"]) @ model["logits"])
    return -jnp.take_along_axis(likelihoods, tokens[:, 1:, None], -1).mean()


@jax.jit
def step(model, first, second, count, tokens):
    loss, gradient = jax.value_and_grad(loss_of)(model, tokens)
    first = jax.tree.map(lambda m, g: FIRST * m + (1 - FIRST) * g, first, gradient)
    second = jax.tree.map(lambda v, g: SECOND * v + (1 - SECOND) * g * g, second, gradient)

    def updated(parameter, m, v):
        change = (m / (1 - FIRST**count)) / (jnp.sqrt(v / (1 - SECOND**count)) + EPSILON)
        return parameter * (1 - LEARNING_RATE * DECAY) - LEARNING_RATE * change

    return jax.tree.map(updated, model, first, second), first, second, loss


def make_call(case, dim):
    if case != "jax":
        raise ValueError(f"the case must be jax, but got {case}")
    model = parameters(dim)
    state = [model, jax.tree.map(jnp.zeros_like, model), jax.tree.map(jnp.zeros_like, model)]
    tokens = jax.random.randint(jax.random.PRNGKey(1), (BATCH, LENGTH + 1), 0, VOCABULARY)
    count = 0.0

    def call():
        nonlocal count
        count += 1
        *state[:], loss = step(*state, count, tokens)
        return float(loss)

    return call


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(__doc__)
        sys.exit(0 if sys.argv[1] in ("-h", "--help") else 2)
    serve(make_call, barrier=lambda: None)
