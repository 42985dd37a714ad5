// Views, joins, and what reads by position or mask.
#include <tapehead/ops/index.h>
#include <tapehead/ops/join.h>
#include <tapehead/ops/masked.h>
#include <tapehead/ops/views.h>
#include <tapehead/ops/windows.h>

#include "operations.h"

namespace tapehead::program {
namespace {

void add_views(Operations& t) {
  t.add("reshape", [](Call& c) { return reshape(c["x"], c.dims("shape")); });
  t.add("transpose",
        [](Call& c) { return transpose(c["x"], c.integer("dim0"), c.integer("dim1")); });
  t.add("permute", [](Call& c) { return permute(c["x"], c.dims("dims")); });
  t.add("squeeze", [](Call& c) { return squeeze(c["x"], c.optional_integer("dim")); });
  t.add("unsqueeze", [](Call& c) { return unsqueeze(c["x"], c.integer("dim")); });
  t.add("expand", [](Call& c) { return expand(c["x"], c.dims("shape")); });
  t.add("flatten",
        [](Call& c) { return flatten(c["x"], c.integer("start_dim"), c.integer("end_dim")); });
}

void add_parts(Operations& t) {
  t.add("narrow", [](Call& c) {
    return narrow(c["x"], c.integer("dim"), c.integer("start"), c.integer("length"));
  });
  t.add("slice", [](Call& c) {
    const auto start = c.optional_integer("start"), end = c.optional_integer("end");
    return slice(c["x"], c.integer("dim"), start, end, c.integer("step"));
  });
  t.add("select", [](Call& c) { return select(c["x"], c.integer("dim"), c.integer("index")); });
  t.add("split", [](Call& c) {
    const std::int64_t dim = c.integer("dim");
    return c.is_list("split_size") ? split(c["x"], c.integers("split_size"), dim)
                                   : split(c["x"], c.integer("split_size"), dim);
  });
  t.add("chunk", [](Call& c) { return chunk(c["x"], c.integer("chunks"), c.integer("dim")); });
}

void add_joins(Operations& t) {
  t.add("contiguous", [](Call& c) { return contiguous(c["x"]); });
  t.add("cat", [](Call& c) { return cat(c.numbered("t"), c.integer("dim")); });
  t.add("stack", [](Call& c) { return stack(c.numbered("t"), c.integer("dim")); });
  t.add("repeat", [](Call& c) { return repeat(c["x"], c.dims("repeats")); });
  t.add("flip", [](Call& c) { return flip(c["x"], c.dims("dims")); });
}

}  // namespace

void add_shapes(Operations& table) {
  add_views(table);
  add_parts(table);
  add_joins(table);
}

void add_indexing(Operations& t) {
  t.add("tril", [](Call& c) { return tril(c["x"], c.integer("diagonal")); });
  t.add("triu", [](Call& c) { return triu(c["x"], c.integer("diagonal")); });
  t.add("masked_fill", [](Call& c) { return masked_fill(c["x"], c["mask"], c.number("value")); });
  t.add("index_select", [](Call& c) { return index_select(c["x"], c.integer("dim"), c["index"]); });
  t.add("gather", [](Call& c) { return gather(c["x"], c.integer("dim"), c["index"]); });
  t.add("embedding", [](Call& c) {
    return embedding(c["weight"], c["indices"], c.optional_integer("padding_idx"));
  });
}

}  // namespace tapehead::program
