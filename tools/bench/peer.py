#!/usr/bin/env python3
"""The scenarios of `tapehead bench` on PyTorch: one JSON object on stdout.

    peer.py SCENARIO --threads N --budget SECONDS

Composed attention is spelled out in operations; *_fused is PyTorch's own fused attention. Training
steps take the faster one of AdamW's two implementations. Needs PyTorch (README says which).
"""
import argparse
import json
import math
import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F

SIZES = {"mha_a": (8, 128), "mha_b": (4, 512), "mha_c": (1, 2048)}
DIM, HEADS = 512, 8
VOCABULARY, CONTEXT, BATCH, LAYERS, GPT_DIM = 65, 256, 8, 4, 256


def measure(iterate, budget):
    """Median, minimum and p90 in milliseconds, as tapehead bench takes them."""
    for _ in range(2):
        iterate()
    times = []
    while len(times) < 5 or sum(times) < budget:
        start = time.perf_counter()
        iterate()
        times.append(time.perf_counter() - start)
    times.sort()
    return {
        "median_ms": statistics.median_high(times) * 1e3,
        "min_ms": times[0] * 1e3,
        "p90_ms": times[(len(times) - 1) * 9 // 10] * 1e3,
    }


def status_bytes(field):
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
    return -1


def reset_peak_resident():
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def saved_bytes(forward, apart):
    """Bytes of the distinct storages that the backward pass keeps, but for those of `apart`."""
    kept = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        result = forward()
    for tensor in apart:
        kept.pop(tensor.untyped_storage().data_ptr(), None)
    del result
    return sum(kept.values())


def causal_attention(q, k, v, hidden, fused):
    if fused:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    scores = (q @ k.transpose(-2, -1)) * (1 / math.sqrt(q.shape[-1]))
    if hidden is not None:
        scores = scores.masked_fill(hidden, float("-inf"))
    return F.softmax(scores, -1) @ v


def hidden_after(time_steps):
    return torch.ones(time_steps, time_steps, dtype=torch.bool).triu(1)


class Attention(nn.Module):
    def __init__(self, dim, heads, fused):
        super().__init__()
        self.heads, self.fused = heads, fused
        self.q, self.k, self.v, self.out = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, x, hidden, cache=None):
        batch, time_steps, dim = x.shape
        split = (batch, time_steps, self.heads, dim // self.heads)
        q, k, v = (f(x).view(split).transpose(1, 2) for f in (self.q, self.k, self.v))
        if cache is not None:
            k, v = cache.append(k, v)
        y = causal_attention(q, k, v, hidden, self.fused and cache is None)
        return self.out(y.transpose(1, 2).reshape(batch, time_steps, dim))


class Cache:
    def __init__(self):
        shape = (1, HEADS, CONTEXT, GPT_DIM // HEADS)
        self.keys, self.values, self.size = torch.empty(shape), torch.empty(shape), 0

    def append(self, keys, values):
        end = self.size + keys.shape[2]
        self.keys[:, :, self.size : end] = keys
        self.values[:, :, self.size : end] = values
        self.size = end
        return self.keys[:, :, :end], self.values[:, :, :end]


class Block(nn.Module):
    def __init__(self, fused):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(GPT_DIM), nn.LayerNorm(GPT_DIM)
        self.attention = Attention(GPT_DIM, HEADS, fused)
        self.up, self.down = nn.Linear(GPT_DIM, 4 * GPT_DIM), nn.Linear(4 * GPT_DIM, GPT_DIM)

    def forward(self, x, hidden, cache=None):
        x = x + self.attention(self.norm1(x), hidden, cache)
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self, fused):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, GPT_DIM)
        self.positions = nn.Embedding(CONTEXT, GPT_DIM)
        self.blocks = nn.ModuleList(Block(fused) for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(GPT_DIM), nn.Linear(GPT_DIM, VOCABULARY, bias=False)
        self.register_buffer("hidden", hidden_after(CONTEXT))

    def forward(self, tokens, caches=None):
        start = caches[0].size if caches else 0
        places = torch.arange(start, start + tokens.shape[1])
        x = self.tokens(tokens) + self.positions(places)
        for i, block in enumerate(self.blocks):
            x = block(x, None if caches else self.hidden, caches[i] if caches else None)
        return self.head(self.norm(x))


def forward_backward(forward, leaves, seed):
    def iterate():
        for leaf in leaves:
            leaf.grad = None
        forward().backward(seed)

    return iterate


def subject_of_function(function, shapes):
    leaves = [torch.randn(shape, requires_grad=True) for shape in shapes]
    seed = torch.randn(shapes[0])
    return forward_backward(lambda: function(*leaves), leaves, seed), lambda: function(*leaves), leaves


def op_overhead():
    x, step = torch.ones(1, requires_grad=True), torch.full((1,), 1e-3)

    def chain():
        y = x
        for _ in range(1000):
            y = y + step
        return y

    return [forward_backward(chain, [x], None)], chain, [x]


def elementwise(name):
    shape, row = (4096, 1024), (1024,)
    functions = {
        "softmax": (lambda x: F.softmax(x, -1), [shape]),
        "layernorm": (lambda x, w, b: F.layer_norm(x, row, w, b), [shape, row, row]),
        "gelu": (F.gelu, [shape]),
        "gelutanh": (lambda x: F.gelu(x, approximate="tanh"), [shape]),
    }
    iterate, forward, leaves = subject_of_function(*functions[name])
    return [iterate], forward, leaves


def multi_head_attention(name, fused):
    batch, time_steps = SIZES[name]
    module, hidden = Attention(DIM, HEADS, fused), hidden_after(time_steps)
    x = torch.randn(batch, time_steps, DIM, requires_grad=True)
    seed = torch.randn(batch, time_steps, DIM)
    leaves = [*module.parameters(), x]
    forward = lambda: module(x, hidden)
    return [forward_backward(forward, leaves, seed)], forward, leaves


def long_attention(fused):
    hidden = hidden_after(4096)
    function = lambda q, k, v: causal_attention(q, k, v, hidden, fused)
    iterate, forward, leaves = subject_of_function(function, [(1, 8, 4096, 64)] * 3)
    return [iterate], forward, leaves


def training(module, loss):
    def step_with(optimizer):
        def iterate():
            optimizer.zero_grad(set_to_none=True)
            loss().backward()
            optimizer.step()

        return iterate

    parameters = list(module.parameters())
    optimizers = [torch.optim.AdamW(parameters, lr=1e-3, fused=fused) for fused in (False, True)]
    return [step_with(optimizer) for optimizer in optimizers], loss, parameters


def mlp_step():
    module = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))
    x, targets = torch.randn(64, 784), torch.randint(0, 10, (64,))
    return training(module, lambda: F.cross_entropy(module(x), targets))


def gpt_step(fused):
    module = Gpt(fused)
    tokens = torch.randint(0, VOCABULARY, (BATCH, CONTEXT))
    targets = torch.randint(0, VOCABULARY, (BATCH * CONTEXT,))
    return training(module, lambda: F.cross_entropy(module(tokens).view(-1, VOCABULARY), targets))


def decode():
    module = Gpt(fused=False).eval()

    @torch.no_grad()
    def iterate():
        caches = [Cache() for _ in range(LAYERS)]
        token = torch.zeros(1, 1, dtype=torch.long)
        for _ in range(CONTEXT):
            token = module(token, caches)[:, -1].argmax(-1, keepdim=True)

    return [iterate], None, []


def subject(scenario):
    """What to time (the fastest counts), the forward pass, and what it keeps anyway."""
    name, fused = scenario.removesuffix("_fused"), scenario.endswith("_fused")
    if name in SIZES:
        return multi_head_attention(name, fused)
    makers = {
        "longattn": lambda: long_attention(fused),
        "gpt_step": lambda: gpt_step(fused),
        "op_overhead": op_overhead,
        "mlp_step": mlp_step,
        "decode": decode,
    }
    return makers[name]() if name in makers else elementwise(name)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scenario")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--budget", type=float, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    iterations, forward, apart = subject(options.scenario)
    saved = saved_bytes(forward, apart) if forward else 0
    idle = status_bytes("VmRSS")
    reset_peak_resident()
    timings = [measure(iterate, options.budget) for iterate in iterations]
    result = min(timings, key=lambda timing: timing["median_ms"])
    print(json.dumps({
        "scenario": options.scenario,
        "version": torch.__version__,
        "threads": options.threads,
        **result,
        "saved_bytes": saved,
        "idle_resident_bytes": idle,
        "peak_resident_bytes": status_bytes("VmHWM"),
    }))


if __name__ == "__main__":
    main()
