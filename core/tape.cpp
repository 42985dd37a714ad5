#include <tapehead/core/count.h>
#include <tapehead/core/ledger.h>
#include <tapehead/core/tape.h>

#include <algorithm>
#include <mutex>
#include <set>

namespace tapehead {
namespace {

struct Recording {
  Tape* tape = nullptr;
  bool paused = false;  // whether a Pause that began under this tape lives
};
constinit thread_local Recording recording_state;

constexpr std::uint64_t no_tape = ~std::uint64_t{0};  // no tape has this serial

// The serials of all open tapes, so that a new tape knows which older ones had not closed yet.
struct OpenTapes {
  std::mutex mutex;
  std::uint64_t last_serial = 0;
  std::set<std::uint64_t> serials;
};

OpenTapes& open_tapes() {
  static OpenTapes& tapes = *new OpenTapes;
  return tapes;
}

std::uint64_t open_serial(std::vector<std::uint64_t>& open_before) {
  OpenTapes& tapes = open_tapes();
  const std::lock_guard lock(tapes.mutex);
  open_before.assign(tapes.serials.begin(), tapes.serials.end());
  tapes.serials.insert(++tapes.last_serial);
  return tapes.last_serial;
}

void close_serial(std::uint64_t serial) {
  OpenTapes& tapes = open_tapes();
  const std::lock_guard lock(tapes.mutex);
  tapes.serials.erase(serial);
}

}  // namespace

// ---- life ---------------------------------------------------------------------------------------

Tape::Tape()
    : serial_(open_serial(open_at_birth_)),
      thread_(&recording_state),
      outer_(recording_state.tape) {
  recording_state = {this, false};
}

Tape::Tape(SaveNothing) : Tape() { saves_nothing_ = true; }

Tape::~Tape() {
  if (&recording_state != thread_) detail::cannot_destroy("a Tape", detail::on_wrong_thread);
  if (being_walked_) detail::cannot_destroy("a Tape", "by a rule or hook of its own reverse walk");
  if (Ledger::watching()) Ledger::closing(*this);
  // Tapes on the heap may close out of order: the one inside takes over the one around this one.
  for (Tape* inner = recording_state.tape; inner; inner = inner->outer_)
    if (inner->outer_ == this) inner->outer_ = outer_;
  if (recording_state.tape == this)
    recording_state = {outer_, Pause::lives_under(outer_ ? outer_->serial_ : 0)};
  close_serial(serial_);
}

Tape* Tape::recording() { return recording_state.paused ? nullptr : recording_state.tape; }

bool Tape::paused() { return recording_state.paused; }

Tape::Pause::Pause() : tape_(recording_state.tape ? recording_state.tape->serial_ : 0) {
  recording_state.paused = true;
}
Tape::Pause::~Pause() {
  const std::uint64_t now = recording_state.tape ? recording_state.tape->serial_ : 0;
  if (tape_ != now) return;
  tape_ = no_tape;  // this one no longer counts
  recording_state.paused = lives_under(now);
}

bool Tape::Pause::lives_under(std::uint64_t tape) {
  for (const Pause* pause = innermost(); pause; pause = pause->outer())
    if (pause->tape_ == tape) return true;
  return false;
}

// ---- what was recorded -------------------------------------------------------------------------

std::vector<bool> Tape::reached_from(std::span<const std::uint32_t> ys, std::size_t first) const {
  std::vector<bool> reached(values_.size(), false);
  for (const std::uint32_t y : ys) reached[y] = true;
  for (std::size_t i = nodes_.size(); i-- > first;) {
    const Node& node = *nodes_[i];
    if (!reached[node.output_]) continue;
    for (const Edge edge : node.inputs())
      if (edge.tracked) reached[edge.value] = true;
  }
  return reached;
}

std::vector<Tensor> Tape::leaves_of(const Tensor& y) {
  check_own_thread("leaves_of");
  const Edge edge = resolve("leaves_of", y);
  if (!edge.tracked) return {};
  const std::vector<bool> reached = reached_from(std::span(&edge.value, 1), 0);
  std::vector<Tensor> found;
  for (const Tensor& leaf : leaves_)
    if (reached[leaf_values_.at(leaf.impl())]) found.push_back(leaf);
  return found;
}

std::int64_t Tape::flops() const {
  check_own_thread("flops");
  std::int64_t sum = 0;
  for (const auto& node : nodes_) sum = count_sum(sum, node->flops());
  return sum;
}

bool Tape::has_planned() const {
  return std::any_of(nodes_.begin(), nodes_.end(),
                     [](const auto& node) { return node->is_planned(); });
}

PackingTable& Tape::packings() {
  if (!packings_) packings_ = std::make_unique<PackingTable>();
  return *packings_;
}

// ---- values -------------------------------------------------------------------------------------

bool Tape::is_open(std::uint64_t serial) {
  OpenTapes& tapes = open_tapes();
  const std::lock_guard lock(tapes.mutex);
  return tapes.serials.contains(serial);
}

bool Tape::was_closed_at_birth(std::uint64_t serial) const {
  return serial < serial_ &&
         !std::binary_search(open_at_birth_.begin(), open_at_birth_.end(), serial);
}

void Tape::reject_foreign(const char* operation, const Tensor& x) const {
  if (is_open(x.impl()->stamp.tape))
    throw StateError(operation, "input " + describe(x) +
                                    " was recorded on another open tape; only the innermost tape "
                                    "of a thread records, so its gradient would be lost; use "
                                    "x.detach() if that is meant");
  throw StateError(operation, "input " + describe(x) +
                                  " was recorded on a tape that closed after this one had opened; "
                                  "its gradient is lost; use x.detach() if that is meant");
}

Edge Tape::resolve(const char* operation, const Tensor& x) {
  if (!x.defined()) throw ValueError(operation, "an input is undefined");
  switch (x.impl()->tracking) {
    case detail::Tracking::constant: return {};
    case detail::Tracking::leaf: return {value_of_leaf(x), true};
    case detail::Tracking::recorded: {
      const Stamp stamp = x.impl()->stamp;
      if (stamp.tape == serial_) return {stamp.value, true};
      if (was_closed_at_birth(stamp.tape)) return {};
      reject_foreign(operation, x);
    }
    case detail::Tracking::untracked: break;
  }
  throw StateError(operation, "input " + describe(x) +
                                  " was computed from a parameter while no tape was open, so its "
                                  "gradient is lost; compute it under the tape, or use "
                                  "x.detach() if that is meant");
}

std::uint32_t Tape::value_of(const Tensor& x) {
  if (x.is_leaf()) return value_of_leaf(x);
  const detail::TensorImpl& impl = *x.impl();
  if (impl.tracking == detail::Tracking::recorded && impl.stamp.tape == serial_)
    return impl.stamp.value;
  return add_value(x, -1);
}

namespace {

// So that the next push_back cannot fail.
template <class Row>
void make_room(std::vector<Row>& rows) {
  if (rows.size() == rows.capacity()) rows.reserve(2 * rows.size() + 16);
}

}  // namespace

std::uint32_t Tape::value_of_leaf(const Tensor& leaf) {
  const auto found = leaf_values_.find(leaf.impl());
  if (found != leaf_values_.end()) return found->second;
  // What fails leaves no leaf without a row, and no leaf in one table alone.
  make_room(leaves_);
  const std::uint32_t value = add_value(leaf, -1);
  leaf_values_.emplace(leaf.impl(), value);
  leaves_.push_back(leaf);
  return value;
}

void Tape::make_room_for_a_node() { make_room(nodes_); }

std::uint32_t Tape::add_value(const Tensor& x, std::int64_t producer) {
  const detail::TensorImpl& impl = *x.impl();
  const auto value = static_cast<std::uint32_t>(values_.size());
  const std::size_t dims = dims_.size();
  dims_.insert(dims_.end(), impl.shape.begin(), impl.shape.end());
  dims_.insert(dims_.end(), impl.strides.begin(), impl.strides.end());
  values_.push_back({.storage = impl.storage->id(),
                     .storage_bytes = static_cast<std::int64_t>(impl.storage->bytes()),
                     .offset = impl.offset,
                     .dims = dims,
                     .producer = producer,
                     .rank = static_cast<std::uint8_t>(impl.shape.rank()),
                     .dtype = impl.dtype,
                     .category = impl.storage->category(),
                     .leaf = x.is_leaf()});
  if (impl.name) names_.emplace(value, *impl.name);
  return value;
}

Shape Tape::shape_of(std::uint32_t value) const {
  const ValueRow& row = values_[value];
  return Shape(std::span(dims_).subspan(row.dims, row.rank));
}

Strides Tape::strides_of(std::uint32_t value) const {
  const ValueRow& row = values_[value];
  return Strides(std::span(dims_).subspan(row.dims + row.rank, row.rank));
}

void Tape::check_own_thread(const char* operation) const {
  if (&recording_state != thread_)
    throw StateError(operation, "this tape belongs to another thread");
}

}  // namespace tapehead
