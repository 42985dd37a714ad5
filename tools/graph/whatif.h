// What a change to the model would do to its memory: the graph that a ledger would have seen, made
// from the graph that it did see, without running anything. Bytes saved, the peak and
// floating-point operations of the result are read as those of any graph.
//
// How it is done. A graph's steps and their births and deaths of storages are a script. Each change
// edits the script; nothing else about the run is simulated, so what the change does not touch
// stays as it was, to the byte. The edits are told below for each change. Without events only slots
// and operations change, and there is no peak.
//
// Paths are whole module paths in which * and ? are wildcards ("layers.*", "*.self_attn"). The
// shortest path that matches is the module, with everything below it; each run of operations of one
// module is a *region*. The forward steps of a region are those that recorded its operations, its
// backward steps those that ran their rules.
#pragma once

#include <tapehead/core/graph.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace tapehead::graph {

/// Every region that matches, run by nn::checkpoint.
///
/// Slots: those of the region's operations go. In their place an operation "checkpoint" keeps an
/// "input" for each value that enters (a result recorded before it; a constant that one of its
/// operations reads as an input and that was there before the region), and a "parameter" for each
/// leaf. A constant that is only saved, such as a mask, is taken to be held by the function: it
/// lives to the end.
///
/// Script: what was made in the region and kept by its slots alone dies at the region's end, or,
/// when it is the region's result, after its last reader outside. Before the region's first
/// backward step its forward steps are inserted again, with the same births and deaths of copies of
/// the storages. What slots keep of the copies dies in the backward step of the earliest operation
/// that keeps it, the result and what else is left at the region's end. What enters lives to the
/// region's end.
///
/// The gradient of the region's result, g, is held to the region's end too. Without the checkpoint
/// it may die earlier, or be written to in place; where it would be, another buffer of its size is
/// needed from there to the region's end. The same holds for the gradient of a value that enters
/// when operations after the region read that value as well: the region's part of it needs a buffer
/// of its own. Where g goes is followed through the operations that pass a gradient on as it is
/// (add of equal shapes, views).
///
/// Bound: saved bytes are exact when constants that enter are given as inputs. The peak is exact
/// but where it falls into the first run of a region: there it is too high by what dies in the
/// midst of that run, at most the region's saved bytes; and where gradients enter or leave several
/// regions in one value, by at most one gradient of that value. It is never too low by more than
/// that gradient.
///
/// ValueError: nothing matches, or a region has several results.
Graph checkpointed(const Graph& graph, std::string_view path);

/// Every composed attention in the modules that match, run by the fused kernel: a product, what
/// adds a bias, masked_fill, softmax, dropout, a product.
///
/// Slots: those of these operations go. An operation "fused_attention" keeps q, k, v, its result y,
/// row_max and row_sum (a number for each query and head) and a bias. A mask of two dims that comparing
/// positions made (by "gt") is taken for a causal triangle, of which the kernel needs no tensor;
/// any other mask is kept as "hidden".
///
/// Script: what the steps of these operations gave birth to goes, but for y; row_max and row_sum come. The
/// kernel writes y as the merged heads want it, so the copy that merges them goes too, and y lives
/// as long as that copy did. One backward step stands for theirs: the gradients of q, k and v are
/// born in it, and what it keeps dies after it. The kernel's own workspace is on its stack: no
/// storage, so no byte of the peak.
///
/// A mask that was made before, and that no slot keeps any more, dies after its last reader.
///
/// Bound: saved bytes are exact, but for a mask that is no causal triangle though it looks like one
/// (its bytes). The peak is exact but where it falls behind the last layer's attention in the
/// forward pass: there it is too low by at most the bytes of the masks that the caller still holds.
/// With a bias that wants a gradient it is too low by at most two tensors of the scores' shape.
///
/// ValueError: no composed attention in any module that matches.
Graph fused(const Graph& graph, std::string_view path);

/// Saved slots "MODULE OPERATION.SLOT" that match, made again where they are read: the slot keeps
/// nothing, and its rule runs the operation that made the value once more, and those before it,
/// back to values that are kept at that time.
///
/// Script: a storage that only such slots keep dies after its last reader in the forward pass. In
/// the backward step of each of these slots, copies are born of it and of what had to be made again
/// on the way, and die with the step.
///
/// Bound: exact for the operations as they are; an operation that would run in place of an operand
/// needs less.
///
/// ValueError: nothing matches, or the value is no result of an operation.
Graph recomputed(const Graph& graph, std::string_view slot);

/// The figures of two graphs and their difference.
std::string what_if_text(const Graph& before, const Graph& after);
std::string what_if_json(const Graph& before, const Graph& after);

}  // namespace tapehead::graph
