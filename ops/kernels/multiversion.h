// Function multiversioning: the compiler makes a copy of a marked function for each instruction set
// and the loader picks one, so that a portable binary runs wide vectors. GCC on x86-64 only;
// elsewhere, and under sanitizers, the marks mean nothing. A marked function must not be inlined,
// and what it calls must be, or the callee stays in the baseline instruction set.
#pragma once

#if defined(TAPEHEAD_CLONES) && TAPEHEAD_CLONES
#define TAPEHEAD_MULTIVERSION \
  __attribute__((noinline, target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define TAPEHEAD_MULTIVERSION
#endif

#define TAPEHEAD_INLINE inline __attribute__((always_inline))
