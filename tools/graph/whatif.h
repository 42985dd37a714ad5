// What a change to the model would do to its memory: the graph that a ledger would have seen, made
// from the graph that it did see, without running anything. Bytes saved, the peak and
// floating-point operations of the result are read as those of any graph: flops are those of the
// products that are recorded, the ones that a checkpoint records again too. What a rule computes
// within itself, and the gradients' own products, are not among them.
//
// How it is done. A graph's steps and their births and deaths of storages are a script. Each change
// edits the script; nothing else about the run is simulated, so what the change does not touch
// stays as it was, to the byte. The edits are told below for each change. Without events only slots
// and operations change, and there is no peak; a checkpoint then counts the flops of running all of
// its region again.
//
// The tape viewer has a simulator of its own (viewer/whatif_*.js), which must make the same edits;
// tests/data/whatif.json holds both to the same figures.
//
// Paths are whole module paths in which * and ? are wildcards ("layers.*", "*.self_attn"). The
// shortest path that matches is the module, with everything below it; each run of operations of one
// module is a *region*. "(root)", and "*" too, match the operations whose path is empty: those of
// an unnamed root module itself, and those outside any module. The forward steps of a region are
// those that recorded its operations, its backward steps those that ran their rules.
#pragma once

#include <tapehead/core/graph.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tapehead::graph {

/// Every region that matches one of the paths, run by nn::checkpoint. One that is a checkpoint
/// already, or lies within another one that matches, stays as it is, and so does what has no
/// module's path: that is no module that runs as one.
///
/// Operations and slots: those of the region go, with the flops, into one operation "checkpoint" in
/// the place of the last; what runs again is told as recomputed operations. It keeps an "input" for
/// each value that enters (a result recorded before it; a constant that one of its operations reads
/// as an input and that was there before the region), and a "parameter" for each leaf. A constant
/// that is only saved, such as a mask, and that was there before the region or that slots outside
/// it keep too, is taken to be held by the function: it lives to the end, and is not made again.
///
/// Held values. What enters is held by the checkpoint from the region on. Where the graph as it was
/// had an operation from there on that wrote its result over such a value's storage, because nobody
/// else held it, that result is a storage of its own now, which is born in the operation's step and
/// dies as the one storage did.
///
/// Script, the first run. The region's first forward step also holds what happened since the
/// operation before it: its events in front of the first birth that its own operation made do not
/// belong to the region. A storage that enters lives to the region's end at least, which is a
/// backward step of the operation "checkpoint", inserted after the region's last one; it dies there
/// if it died before, in the forward pass or in the region's backward steps. (A region that the
/// backward pass goes by ends before the next rule that runs; one behind its start, at the end of
/// all.) Another storage that slots of the region keep, and whose death falls between the region's
/// first and last backward step, dies earlier now. When it was made in the region: in the backward
/// step of the first operation after the region that keeps it; without one, at the end of the
/// region's last forward step, or, when it is the region's result, of the forward step of its last
/// reader; and not before the end of another region that it enters. When it was made before: at the
/// end of all.
///
/// The second run. Before the region's first backward step its forward steps are inserted again,
/// with the births and deaths of copies of the storages made in the region. A copy that is left
/// dies in the backward step of the earliest operation of the region that keeps it; that of the
/// result at the region's end; any other at the start of the region's first backward step.
///
/// Gradients. "Hold a buffer of n bytes from step s" means: the first storage of n bytes that is
/// born and dies in s dies at the region's end in place of there; without one, a new storage of n
/// bytes is born at the start of s and dies at the region's end. A node passes its gradient on to
/// an input when that input's gradient is the output's, as it is: add and expand where the shapes
/// are equal, the first input of sub where they are, and reshape, flatten, squeeze, unsqueeze,
/// transpose, permute, clone and contiguous. Inputs that are constants have no gradient.
///  - When operations after the region read an input too, the region's part of its gradient needs a
///    buffer of its own: hold one of its bytes from the first backward step that reads it.
///  - The gradient g of the region's result is held by the checkpoint to the region's end. When a
///    single operation outside reads the result, and passes its gradient on also to a value from
///    before the region that nothing later reads (a residual), g lives longer anyway: nothing to
///    do. Else follow g in the set H of values whose gradient, as far as it is summed up, is g's
///    buffer. H begins as the result alone. For each operation of the region with a backward step,
///    last to first: take its output out of H. For each of its inputs: when the input is in H, take
///    it out, and if H had no other and the operation did not pass g on to it, a sum is written to
///    g: hold a buffer of g's bytes from this step. When the input had no part of a gradient before
///    and g is passed on to it, put it into H. If the output was in H and H is empty now, g is read
///    for the last time: the storage of g's bytes that dies in this step, was not born in it and
///    that no slot keeps, dies at the region's end; if there is none, hold a buffer. Of all these,
///    only the first that applies is done. If H is not empty in the end and none was, a copy of g
///    is born and dies at the region's end.
///
/// Categories. A storage made in the region that no slot keeps any more is transient, and so is the
/// second run's copy of one that slots of the region do not keep. Where a sum went to g's buffer,
/// which lived on, the buffer held for it lives on, and g's own dies at the region's end.
///
/// Bound: saved bytes are exact when constants that enter are given as inputs. Where each
/// checkpoint makes a constant anew that all of them share in the graph, as nn::Gpt does with its
/// mask, the peak is too high by at most the constant's bytes; checkpoint_matches() says so. Else
/// it is exact but where it falls into the first run of a region: there it is too high by what
/// dies in the midst of that run, at most the region's saved bytes. (The second run has the same
/// storages live, and the gradients besides; so only what is freed between the two can bring the
/// peak there.)
/// Where it falls into the forward step of an operation that may write over the region's result, or
/// over an operand that dies in its step while the one that it wrote over is held now, it is too
/// high by at most the bytes of the operation's result.
/// Where g's buffer takes another way than the table of operations tells, it is off by at most g's
/// bytes, of the region in which the peak falls.
///
/// ValueError: nothing matches, or nothing that can be a checkpoint and is none; a region has
/// several results, or a checkpoint among its operations.
Graph checkpointed(const Graph& graph, const std::vector<std::string>& paths);
/// The same of one path.
inline Graph checkpointed(const Graph& graph, std::string_view path) {
  return checkpointed(graph, std::vector{std::string(path)});
}

/// Every composed attention in the modules that a path matches, run by the fused kernel: a
/// product, what adds a bias, masked_fill, softmax, dropout, a product.
///
/// Slots: those of these operations go. An operation "fused_attention" keeps q, k, v, its result y,
/// row_max and row_sum (a number for each query and head) and a bias. Of the mask
/// that Mask::causal() makes, known by its name (nn/mask.h), the kernel needs no tensor; any other
/// mask is kept as "hidden".
///
/// Script: what the steps of these operations gave birth to goes, but for y; row_max and row_sum
/// come. The kernel writes y as the merged heads want it, so the copy that merges them goes too,
/// and y lives as long as that copy did. One backward step stands for theirs: the gradients of q, k
/// and v are born in it, and what it keeps dies after it. The kernel's own workspace is on its
/// stack: no storage, so no byte of the peak.
///
/// A triangle that no operation that stays reads or keeps is not made; another is made, as ever, by
/// the first one that does, and dies in its backward step. What the kernel's slots keep is held as
/// a checkpoint holds what enters, and lives to that step, also where the composed operations did
/// not keep it, as a bias that wants no gradient; where the backward pass does not reach the
/// kernel, to the end of all.
///
/// A bias that wants a gradient costs one more tensor of the scores' shape in that step, unless it
/// has as many elements.
///
/// Bound: saved bytes and the peak are exact, but for a causal triangle combined with another mask,
/// of which the kernel keeps the other alone: too high by at most the mask's bytes. Where
/// some other attention is in a checkpoint already, a triangle may be its, too, and is taken to be
/// made and held as before: the peak is too high by at most its bytes. Grouped heads are not
/// recognised.
///
/// Flops: the operation has those of the two products in its place. Its rule makes q k^T once more
/// in the backward pass, which is not counted.
///
/// ValueError: no composed attention in any module that one of the paths matches.
Graph fused(const Graph& graph, const std::vector<std::string>& paths);
/// The same of one path.
inline Graph fused(const Graph& graph, std::string_view path) {
  return fused(graph, std::vector{std::string(path)});
}

/// Saved slots "MODULE OPERATION.SLOT" that match one of the patterns, made again where they are
/// read. Of several operations of one name in a module, "MODULE OPERATION#2.SLOT" is the second;
/// without a number all of them are meant. The slot keeps nothing, and its rule runs the operation
/// that made the value once more, and those before it, back to values that are kept at that time.
///
/// Script: a storage that only such slots keep dies after its last reader in the forward pass. In
/// the backward step of each of these slots, copies are born of it and of what had to be made again
/// on the way, and die with the step.
///
/// Bound: exact for the operations as they are; an operation that would run in place of an operand
/// needs less.
///
/// A slot whose value is no result of an operation stays. ValueError: a pattern matches nothing, or
/// only such slots.
Graph recomputed(const Graph& graph, const std::vector<std::string>& slots);

/// What a pattern of one of these questions found.
struct WhatIfMatch {
  std::string name;  ///< a module's path, empty for the root, or "layers.0 gelu.x"
  std::optional<std::int64_t> freed = {};  ///< bytes, of a slot
  std::string note = {};  ///< why a slot frees nothing or a module stays, or a bound; else empty
  bool stays = false;     ///< a slot that is not made again, or the root, which is no checkpoint
  bool operator==(const WhatIfMatch&) const = default;
};

/// @{
/// The modules that checkpointed() changes, the attentions that fused() does, and the slots that
/// recomputed() makes again, then those that match and stay. Of a mask that the fused kernel keeps,
/// and that may hold a causal triangle, the note tells how much too high saved bytes and the peak
/// are at the most; of a constant that checkpoints share, how much the peak is. One that several
/// share is told of with the first of them. Errors as of these functions where nothing matches.
std::vector<WhatIfMatch> checkpoint_matches(const Graph& graph,
                                            const std::vector<std::string>& paths);
inline std::vector<WhatIfMatch> checkpoint_matches(const Graph& graph, std::string_view path) {
  return checkpoint_matches(graph, std::vector{std::string(path)});
}
std::vector<WhatIfMatch> fuse_matches(const Graph& graph, const std::vector<std::string>& paths);
inline std::vector<WhatIfMatch> fuse_matches(const Graph& graph, std::string_view path) {
  return fuse_matches(graph, std::vector{std::string(path)});
}
std::vector<WhatIfMatch> recompute_matches(const Graph& graph,
                                           const std::vector<std::string>& slots);
/// @}

/// @{
/// The figures of two graphs and their difference, and what the patterns found. Where `after` has
/// more fused attention, a note says what its flops leave out.
std::string what_if_text(const Graph& before, const Graph& after,
                         const std::vector<WhatIfMatch>& matches = {});
std::string what_if_json(const Graph& before, const Graph& after,
                         const std::vector<WhatIfMatch>& matches = {});
/// @}

}  // namespace tapehead::graph
