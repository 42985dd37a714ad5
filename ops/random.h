// Random tensors and dropout. Every call draws from one generator, this thread's default one unless
// another is given, and gives the same values for any number of threads; all but normal numbers
// (whose logarithm and sine are the C library's) are the same on every machine, too. A dry run
// moves the generator as the real run does. Floating dtypes, else DTypeError. What is made is a
// constant.
#pragma once

#include <tapehead/core/random.h>
#include <tapehead/core/tensor.h>

namespace tapehead {

/// Uniform in [0, 1): multiples of 2^-24 for f32, of 2^-53 for f64.
Tensor rand(const Shape& shape, DType dtype = DType::f32,
            Generator& generator = default_generator());
/// Standard normal. The f32 numbers are those of f64, rounded.
Tensor randn(const Shape& shape, DType dtype = DType::f32,
             Generator& generator = default_generator());
/// Uniform in [low, high); low itself when they are equal. ValueError: high is below low, or one is
/// not finite.
Tensor uniform(const Shape& shape, double low, double high, DType dtype = DType::f32,
               Generator& generator = default_generator());
/// Integers in [low, high), i64, equally likely to within 2^-64 times their number. ValueError:
/// high is not above low.
Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape,
               Generator& generator = default_generator());

/// y = x / (1 - p) where kept, 0 where dropped, each element dropped with probability p. Dropped
/// elements are selected away, so an infinity or NaN among them is gone. x is worked on in place
/// when it is moved in and nobody else holds it.
/// saves nothing: the mask is drawn again from (key, offset);  dx = g / (1 - p) where kept, else 0
/// ValueError: p outside [0, 1]. With p = 0 x is returned and nothing is drawn.
Tensor dropout(Tensor x, double p, Generator& generator = default_generator());
/// The same dropout again: what dropout() did to a tensor of this shape when the generator stood at
/// `state`. ValueError: p outside (0, 1].
Tensor replay_dropout(Tensor x, double p, RandomState state);

}  // namespace tapehead
