// What attention attends to, for programs and for people: the weights of each layer and head as
// JSON, and as one HTML page with heat maps that needs no network.
//
// JSON, format "tapehead-attention/1":
//     {"format": "tapehead-attention/1",
//      "maps": [{"heads": [[[1, 0], [0.25, 0.75]], ...], "hidden": [[".x", ".."]],
//                "module": "layers.0.self_attn"}, ...],
//      "tokens": ["a", "b", ...]}
// with maps in the order of the calls and heads as rows of queries over columns of keys. Weights
// are rounded to 6 decimals; NaN is null. "hidden" stands where a mask hides keys: one grid that
// all heads share, or one for each, with a text for each query: 'x' for a key that is hidden from
// it and '.' for one that it sees, as Mask::grid. The same maps give the same bytes.
#pragma once

#include <tapehead/nn/attention_recorder.h>

#include <span>
#include <string>

namespace tapehead::graph {

/// `tokens` label queries and keys of every map that has as many of them; others, such as the keys
/// of another sequence, are numbered. Of a batch, sequence number `sequence` is written. Bytes of a
/// token that are not UTF-8 become U+FFFD.
/// ShapeError: weights that are not (N, heads, L, S), or a mask that does not broadcast to them.
/// IndexError: no such sequence.
std::string attention_to_json(std::span<const nn::AttentionMap> maps,
                              std::span<const std::string> tokens, std::int64_t sequence = 0);

/// A page that shows all heads small and one large; the weights of a query or key under the pointer
/// are shown on the text, too. Errors as above.
std::string attention_to_html(std::span<const nn::AttentionMap> maps,
                              std::span<const std::string> tokens, std::int64_t sequence = 0);

}  // namespace tapehead::graph
