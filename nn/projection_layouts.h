// The two layouts of attention's projections in state dicts, and conversions between them by name.
//
//   packed     in_proj_weight, the rows of q, of k and of v in one matrix; in_proj_bias
//   separate   q_proj_weight, k_proj_weight, v_proj_weight; in_proj_bias, which stays packed
//
// These are the names of torch.nn.MultiheadAttention, which is packed when keys and values have as
// many features as queries, and else separate; MultiHeadAttention is the same. Other libraries
// write three Linears: q_proj.weight, q_proj.bias and so on. Loading is strict and converts
// nothing by itself: attention.load_state_dict(packed_projections(state)).
#pragma once

#include <tapehead/nn/named_tensor.h>

namespace tapehead::nn {

/// The same state dict with every three separate weights of equally many columns joined to one
/// packed weight, where the first of them stood: q_proj_weight, k_proj_weight, v_proj_weight or
/// three Linears, whose biases are joined, too. Below any prefix ("layers.0.self_attn."). All else
/// stays, as the same handles; weights whose columns differ have no packed layout, and stay.
/// ValueError: a q without its k or v. ShapeError: a weight that is no matrix, a bias that is no
/// vector.
StateDict packed_projections(const StateDict& state);

/// The same state dict with every in_proj_weight taken apart: as many rows for q as it has columns,
/// the rest half for k and half for v (fewer than q's with grouped heads). Views. ShapeError: it is
/// no matrix, or its rows cannot be shared out so.
StateDict separate_projections(const StateDict& state);

}  // namespace tapehead::nn
