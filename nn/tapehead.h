// Everything that a program needs to build, train and inspect a model. Each part can be included by
// itself: <tapehead/core/tape.h>, <tapehead/ops/softmax.h>, <tapehead/nn/attention.h>.
#pragma once

#if __cplusplus < 202002L
#error "Tapehead needs C++20: compile with -std=c++20, or link the CMake target, which asks for it"
#endif

#include <tapehead/core/dry_run.h>
#include <tapehead/core/dtype.h>
#include <tapehead/core/error.h>
#include <tapehead/core/gradcheck.h>
#include <tapehead/core/gradients.h>
#include <tapehead/core/graph.h>
#include <tapehead/core/ledger.h>
#include <tapehead/core/memory.h>
#include <tapehead/core/nan_guard.h>
#include <tapehead/core/node.h>
#include <tapehead/core/parallel.h>
#include <tapehead/core/random.h>
#include <tapehead/core/record.h>
#include <tapehead/core/scope.h>
#include <tapehead/core/shape.h>
#include <tapehead/core/storage.h>
#include <tapehead/core/tape.h>
#include <tapehead/core/tensor.h>
#include <tapehead/core/version.h>
#include <tapehead/core/view.h>

#include <tapehead/ops/activations.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/compare.h>
#include <tapehead/ops/compare_values.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/cross_entropy.h>
#include <tapehead/ops/derivatives.h>
#include <tapehead/ops/diagonal.h>
#include <tapehead/ops/einsum.h>
#include <tapehead/ops/fused_attention.h>
#include <tapehead/ops/index.h>
#include <tapehead/ops/join.h>
#include <tapehead/ops/layer_norm.h>
#include <tapehead/ops/linear.h>
#include <tapehead/ops/loss.h>
#include <tapehead/ops/masked.h>
#include <tapehead/ops/matmul.h>
#include <tapehead/ops/multinomial.h>
#include <tapehead/ops/pointwise.h>
#include <tapehead/ops/print.h>
#include <tapehead/ops/prod.h>
#include <tapehead/ops/random.h>
#include <tapehead/ops/reduce.h>
#include <tapehead/ops/scan.h>
#include <tapehead/ops/search.h>
#include <tapehead/ops/softmax.h>
#include <tapehead/ops/statistics.h>
#include <tapehead/ops/views.h>
#include <tapehead/ops/windows.h>
#include <tapehead/ops/write.h>

#include <tapehead/nn/attention.h>
#include <tapehead/nn/attention_recorder.h>
#include <tapehead/nn/checkpoint.h>
#include <tapehead/nn/decoder_layer.h>
#include <tapehead/nn/distributed.h>
#include <tapehead/nn/encoder_layer.h>
#include <tapehead/nn/feed_forward.h>
#include <tapehead/nn/gpt.h>
#include <tapehead/nn/init.h>
#include <tapehead/nn/key_value_cache.h>
#include <tapehead/nn/layers.h>
#include <tapehead/nn/mask.h>
#include <tapehead/nn/mask_conversions.h>
#include <tapehead/nn/module.h>
#include <tapehead/nn/multi_head_attention.h>
#include <tapehead/nn/named_tensor.h>
#include <tapehead/nn/optimizer.h>
#include <tapehead/nn/positions.h>
#include <tapehead/nn/process_group.h>
#include <tapehead/nn/projection_layouts.h>
#include <tapehead/nn/safetensors.h>
#include <tapehead/nn/sample.h>
#include <tapehead/nn/saved_hooks.h>
#include <tapehead/nn/schedule.h>
#include <tapehead/nn/sdpa.h>
#include <tapehead/nn/transformer.h>
