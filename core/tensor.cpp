#include <tapehead/core/dry_run.h>
#include <tapehead/core/nan_guard.h>
#include <tapehead/core/tensor.h>

namespace tapehead {

std::int64_t Tensor::size(std::int64_t dim) const {
  if (rank() == 0)
    throw IndexError("size", "dim " + std::to_string(dim) + " of a tensor without dims");
  return shape()[normalize_dim("size", dim, shape(), "tensor")];
}

void Tensor::reject_undefined() {
  throw ValueError(
      "Tensor",
      "an undefined tensor was read: it was made by Tensor(), and nothing was assigned "
      "to it");
}

Tensor Tensor::detach() const { return alias(*this, shape(), strides(), offset()); }

template <class T>
T Tensor::item() const {
  if (numel() != 1)
    throw ShapeError("item", "tensor " + describe(*this) + ": exactly one element is wanted");
  return to_vector<T>().front();
}

namespace {

// An expanded tensor may show more elements than memory can hold.
template <class T>
std::vector<T> room_for(const Tensor& x) {
  std::vector<T> values;
  try {
    values.reserve(static_cast<std::size_t>(x.numel()));
  } catch (const std::exception&) {  // bad_alloc or length_error
    throw OutOfMemoryError("to_vector", "no room for the elements of " + describe(x));
  }
  return values;
}

}  // namespace

template <class T>
std::vector<T> Tensor::to_vector() const {
  std::vector<T> values = room_for<T>(*this);
  const View from = any_view();
  visit_any(dtype(), [&](auto zero) {
    using From = decltype(zero);
    const auto loop = merge_dims<1>(from.shape, {&from.strides});
    const From* data = from.as<const From>();
    const std::int64_t step = loop.inner_stride(0);
    for_each_run(loop, 0, numel(), [&](const auto& offsets, std::int64_t count) {
      for (std::int64_t i = 0; i < count; ++i)
        values.push_back(convert<T>(data[offsets[0] + i * step]));
    });
  });
  return values;
}

View Tensor::view() const {
  View seen = any_view();
  if (is_storage_only(dtype())) check_computes(impl_->storage->operation(), "tensor", *this);
  return seen;
}

View Tensor::any_view() const {
  if (storage()->is_dry())
    throw StateError("dry run", "tensor " + describe(*this) + " was made by " +
                                    impl_->storage->operation() +
                                    " in a dry run and has no values");
  return {impl_->storage->data() + impl_->offset * static_cast<std::int64_t>(size_of(dtype())),
          dtype(), shape(), strides()};
}

std::string_view Tensor::name() const {
  return get().name ? std::string_view(*get().name) : std::string_view();
}

void Tensor::set_name(std::string name) {
  if (!defined()) reject_undefined();
  impl_->name = std::make_shared<const std::string>(std::move(name));
}

std::string describe(const Tensor& tensor) {
  if (!tensor.defined()) return "undefined";
  std::string text(to_string(tensor.dtype()));
  text += " " + to_string(tensor.shape());
  if (!tensor.name().empty()) text += " \"" + std::string(tensor.name()) + "\"";
  return text;
}

Tensor empty(const char* operation, const Shape& shape, DType dtype, Category category) {
  check_shape(operation, shape, size_of(dtype));
  Tensor result(new detail::TensorImpl);
  detail::TensorImpl& impl = *result.impl();
  impl.storage = StoragePtr(new Storage(operation, shape, dtype, category));
  impl.shape = shape;
  impl.strides = contiguous_strides(shape);
  impl.dtype = dtype;
  return result;
}

Tensor parameter(Tensor values) {
  check_defined("parameter", "values", values);
  if (!is_floating(values.dtype()))
    throw DTypeError("parameter", "values " + describe(values) + " must be floating");
  if (values.impl()->tracking != detail::Tracking::constant)
    throw StateError("parameter", "values " + describe(values) +
                                      " already belong to a leaf or a tape; clone(x.detach()) is a "
                                      "copy to start from");
  if (values.storage()->use_count() != 1 || values.impl()->use_count() != 1)
    throw StateError("parameter", "values " + describe(values) +
                                      " are shared with another handle or view; move the only "
                                      "handle in, or pass clone(x)");
  values.impl()->tracking = detail::Tracking::leaf;
  values.storage()->set_category(Category::parameter);
  return values;
}

Tensor stand_in(const Tensor& x) {
  Tensor leaf = x.detach();
  leaf.impl()->tracking = detail::Tracking::leaf;
  leaf.impl()->name = x.impl()->name;
  return leaf;
}

template <class T>
Tensor from_vector(const std::vector<T>& values, const Shape& shape, DType dtype) {
  check_shape("from_vector", shape, size_of(dtype));
  if (static_cast<std::int64_t>(values.size()) != numel(shape))
    throw ShapeError("from_vector", std::to_string(values.size()) + " values do not fill shape " +
                                        to_string(shape));
  Tensor result = empty("from_vector", shape, dtype, Category::input);
  launch([&] {
    visit_any(dtype, [&](auto zero) {
      using To = decltype(zero);
      To* to = result.any_view().as<To>();
      for (const T value : values) *to++ = convert<To>(value);
    });
  });
  return result;
}

Tensor alias(const Tensor& x, const Shape& shape, const Strides& strides, std::int64_t offset) {
  Tensor result(new detail::TensorImpl);
  detail::TensorImpl& impl = *result.impl();
  impl.storage = x.storage();
  impl.shape = shape;
  impl.strides = strides;
  impl.offset = offset;
  impl.dtype = x.dtype();
  return result;
}

Tensor donate(const Tensor& x, const Shape& shape, DType dtype) {
  if (NanGuard::watching()) return {};  // its report shows what x held
  const detail::TensorImpl& impl = *x.impl();
  const bool sole_owner = impl.use_count() == 1 && impl.storage->use_count() == 1;
  const bool fits =
      impl.dtype == dtype && numel(impl.shape) == numel(shape) && x.is_contiguous() &&
      impl.offset == 0 &&
      impl.storage->bytes() == static_cast<std::size_t>(numel(shape)) * size_of(dtype);
  if (!sole_owner || !fits || x.is_leaf() || impl.storage->is_dry() != DryRun::active()) return {};
  impl.storage->set_category(Category::transient);
  impl.storage->bump_version();  // other values from here on: what hooks packed of it is not theirs
  return alias(x, shape, contiguous_strides(shape), 0);
}

Tensor donate_or_empty(const char* operation, const Tensor& x, const Shape& shape, DType dtype) {
  Tensor donated = donate(x, shape, dtype);
  return donated.defined() ? donated : empty(operation, shape, dtype);
}

void check_defined(std::string_view operation, std::string_view operand, const Tensor& x) {
  if (!x.defined())
    throw ValueError(operation, std::string(operand) + " is undefined: a tensor is wanted");
}

void check_computes(std::string_view operation, std::string_view what, DType dtype) {
  if (!is_storage_only(dtype) || DryRun::active()) return;
  throw DTypeError(operation, std::string(what) + ": " + std::string(to_string(dtype)) +
                                  " only stores values; cast with to(x, DType::f32) to compute");
}

void check_computes(std::string_view operation, std::string_view operand, const Tensor& x) {
  check_defined(operation, operand, x);
  if (is_storage_only(x.dtype()))
    check_computes(operation, std::string(operand) + " " + describe(x), x.dtype());
}

void check_floating(std::string_view operation, std::string_view operand, const Tensor& x) {
  check_computes(operation, operand, x);
  if (!is_floating(x.dtype()))
    throw DTypeError(operation,
                     std::string(operand) + " " + describe(x) + " must be floating (f32 or f64)");
}

void check_dtype(std::string_view operation, std::string_view operand, const Tensor& x,
                 DType wanted) {
  check_defined(operation, operand, x);
  if (x.dtype() != wanted)
    throw DTypeError(operation, std::string(operand) + " " + describe(x) + " must be " +
                                    std::string(to_string(wanted)));
}

void check_same_dtype(std::string_view operation, const Tensor& a, const Tensor& b,
                      std::string_view a_name, std::string_view b_name) {
  check_defined(operation, a_name, a);
  check_defined(operation, b_name, b);
  if (a.dtype() != b.dtype())
    throw DTypeError(operation, std::string(a_name) + " " + describe(a) + " and " +
                                    std::string(b_name) + " " + describe(b) +
                                    " must have one dtype");
}

template float Tensor::item() const;
template double Tensor::item() const;
template std::int64_t Tensor::item() const;
template bool Tensor::item() const;
template std::vector<float> Tensor::to_vector() const;
template std::vector<double> Tensor::to_vector() const;
template std::vector<std::int64_t> Tensor::to_vector() const;
template std::vector<bool> Tensor::to_vector() const;
template Tensor from_vector(const std::vector<float>&, const Shape&, DType);
template Tensor from_vector(const std::vector<double>&, const Shape&, DType);
template Tensor from_vector(const std::vector<std::int64_t>&, const Shape&, DType);
template Tensor from_vector(const std::vector<bool>&, const Shape&, DType);

}  // namespace tapehead
