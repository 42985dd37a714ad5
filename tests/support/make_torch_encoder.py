"""Writes tests/data/torch_encoder.safetensors: two small torch.nn.TransformerEncoders with an input,
a padding mask, an upstream gradient, and what PyTorch makes of them: output and all gradients.

    pip install torch==2.13.0 safetensors numpy
    python3 tests/support/make_torch_encoder.py

The tests read the file; nothing of this is needed to build or to run them.
"""

import pathlib

import torch
from safetensors.torch import save_file

BATCH, TIME, DIM, HEADS, HIDDEN, LAYERS = 2, 5, 12, 3, 20, 2
PADDING = torch.tensor([[False] * 5, [True, False, False, True, True]])  # true is padding


def encoder(norm_first, activation):
    layer = torch.nn.TransformerEncoderLayer(
        DIM, HEADS, HIDDEN, dropout=0.0, activation=activation, batch_first=True,
        norm_first=norm_first)
    norm = torch.nn.LayerNorm(DIM) if norm_first else None
    model = torch.nn.TransformerEncoder(layer, LAYERS, norm, enable_nested_tensor=False)
    with torch.no_grad():  # PyTorch starts layers as copies, biases at 0 and norms at 1
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model


def case(prefix, norm_first, activation):
    model = encoder(norm_first, activation)
    src = torch.randn(BATCH, TIME, DIM, requires_grad=True)
    upstream = torch.randn(BATCH, TIME, DIM)
    output = model(src, src_key_padding_mask=PADDING)
    output.backward(upstream)
    tensors = {"src": src, "padding": PADDING, "upstream": upstream, "output": output,
               "gradient.src": src.grad}
    for name, parameter in model.named_parameters():
        tensors["state." + name] = parameter
        tensors["gradient." + name] = parameter.grad
    return {f"{prefix}.{name}": tensor.detach().contiguous() for name, tensor in tensors.items()}


def main():
    torch.manual_seed(20)
    tensors = case("post_relu", False, "relu") | case("pre_gelu", True, "gelu")
    path = pathlib.Path(__file__).parents[1] / "data" / "torch_encoder.safetensors"
    path.parent.mkdir(exist_ok=True)
    save_file({name: tensor.clone() for name, tensor in tensors.items()}, path,
              {"torch": torch.__version__.split("+")[0]})
    print(path, path.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
