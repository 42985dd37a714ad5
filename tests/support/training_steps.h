// Training steps of small models as a ledger sees them: what tests of reports read.
#pragma once

#include <tapehead/core/graph.h>
#include <tapehead/nn/attention.h>

#include <functional>
#include <string>

namespace tapehead::tests {

struct StepOptions {
  nn::AttentionPath path = nn::AttentionPath::composed;
  double dropout = 0;
  bool checkpointed = false;  ///< the attention, the encoder layer, each layer of the Gpt
  bool norm_first = false;    ///< of the encoder layer; the Gpt's layers always are
  std::int64_t batch = 2, time = 6, dim = 12, heads = 3;
  std::int64_t layers = 2;  ///< of the Gpt
  /// The scores of the encoder layer and the Gpt have a bias (in the Gpt, ALiBi's) that wants no
  /// gradient and that nobody holds behind the forward pass.
  bool biased = false;
};

/// A dry run of forward, backward and AdamW's update. No name of a module is empty: the attention
/// is "attn", the encoder layer "layer", those of the Gpt "layers.0" and so on.
Graph attention_step(const StepOptions& options = {});
Graph encoder_step(const StepOptions& options = {});
Graph gpt_step(const StepOptions& options = {});
/// A step of a small Gpt that ran, on data, with 6 tokens and every other size different. The one
/// graph of all calls.
const Graph& real_gpt_step();
/// Attention "part.attn" and feed-forward "part.ff", each beside a residual, between linear maps;
/// both are checkpointed.
Graph residual_step(const StepOptions& options = {});

/// Forward and backward of cross attention in "attn", with a bias that wants a gradient or without.
Graph biased_step(const nn::Mask& mask, bool with_bias, nn::AttentionPath path);

/// An operation or several, of a tensor that is moved in.
using Activation = std::function<Tensor(Tensor)>;
/// Forward and backward of a linear map, `f` in the modules "act.0" and so on, as often as `depth`
/// tells, another linear map and a sum. Each module is given the only handle to what enters, so
/// that it is worked on in place, or is a checkpoint.
Graph activation_step(const Activation& f, std::int64_t depth, bool checkpointed);
/// Forward and backward of a linear map, a module "act", and a product that is worked out in place
/// of what enters "act" unless this is a checkpoint: of the value itself, of a view of it that
/// "act" returns, or of the value when the backward pass does not reach "act".
enum class Overwritten { operand, view, unreached };
Graph overwritten_step(Overwritten what, bool checkpointed);

/// Forward and backward of a chain of small modules, each with a border that what-if's checkpoint
/// has a rule of its own for: a result that is "kept" after the module, or only "read" there, a
/// "row" that broadcasts where it is read, and one that is read "often"; a gradient that passes
/// through "views", a "shift", a "difference" and a "bias"; a "branch" beside what it reads, and a
/// "fork" that reads it twice; a module that is "unreached" by the backward pass, one of "two"
/// results, and the "last".
Graph borders_step();

/// The graph of what `step` does.
Graph watch(const std::function<void()>& step);

}  // namespace tapehead::tests
