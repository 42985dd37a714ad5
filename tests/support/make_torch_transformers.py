"""Writes tests/data/torch_encoder.safetensors and torch_decoder.safetensors: small transformers of
torch.nn with inputs, padding masks and an upstream gradient, and what PyTorch makes of them: the
output and all gradients. Post-norm with relu, and pre-norm with gelu and a last norm.

    pip install torch==2.13.0 safetensors numpy
    python3 tests/support/make_torch_transformers.py

The tests read the files; nothing of this is needed to build or to run them.
"""

import pathlib

import torch
from safetensors.torch import save_file

BATCH, LAYERS = 2, 2


def stack(layer_type, stack_type, dim, heads, hidden, norm_first, **options):
    activation = "gelu" if norm_first else "relu"
    layer = layer_type(dim, heads, hidden, dropout=0.0, activation=activation, batch_first=True,
                       norm_first=norm_first)
    model = stack_type(layer, LAYERS, torch.nn.LayerNorm(dim) if norm_first else None, **options)
    with torch.no_grad():  # PyTorch starts layers as copies, biases at 0 and norms at 1
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model


def noise(time, dim):
    return torch.randn(BATCH, time, dim, requires_grad=True)


def gradients(model, inputs, output):
    """All tensors of a case: what went in, what came out, and what came back."""
    upstream = torch.randn_like(output)
    output.backward(upstream)
    tensors = {"upstream": upstream, "output": output}
    for name, tensor in inputs.items():
        tensors[name] = tensor
        if tensor.requires_grad:
            tensors["gradient." + name] = tensor.grad
    for name, parameter in model.named_parameters():
        tensors["state." + name] = parameter
        tensors["gradient." + name] = parameter.grad
    return tensors


def encoder(norm_first):
    model = stack(torch.nn.TransformerEncoderLayer, torch.nn.TransformerEncoder, 12, 3, 20,
                  norm_first, enable_nested_tensor=False)
    padding = torch.tensor([[False] * 5, [True, False, False, True, True]])  # true is padding
    src = noise(5, 12)
    output = model(src, src_key_padding_mask=padding)
    return gradients(model, {"src": src, "padding": padding}, output)


def decoder(norm_first):
    model = stack(torch.nn.TransformerDecoderLayer, torch.nn.TransformerDecoder, 8, 2, 12,
                  norm_first)
    padding = torch.tensor([[False] * 6, [False, True, False, False, True, True]])
    tgt, memory = noise(4, 8), noise(6, 8)
    causal = torch.ones(4, 4, dtype=torch.bool).triu(1)
    output = model(tgt, memory, tgt_mask=causal, memory_key_padding_mask=padding)
    return gradients(model, {"tgt": tgt, "memory": memory, "padding": padding}, output)


def write(name, make):
    tensors = {}
    for prefix, norm_first in ("post_relu", False), ("pre_gelu", True):
        for key, tensor in make(norm_first).items():
            tensors[f"{prefix}.{key}"] = tensor.detach().clone().contiguous()
    path = pathlib.Path(__file__).parents[1] / "data" / f"{name}.safetensors"
    path.parent.mkdir(exist_ok=True)
    save_file(tensors, path, {"torch": torch.__version__.split("+")[0]})
    print(path, path.stat().st_size, "bytes")


if __name__ == "__main__":
    torch.manual_seed(20)
    write("torch_encoder", encoder)
    write("torch_decoder", decoder)
