// Everything that a program needs to build, train and inspect a model. Each part can be included by
// itself: <tapehead/core/tape.h>, <tapehead/ops/softmax.h>, <tapehead/nn/attention.h>.
#pragma once

