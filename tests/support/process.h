// What tests ask of their own process: whether it is sanitized, threads with small stacks, a second
// run of it.
#pragma once

#include <doctest/doctest.h>

#include <pthread.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace tapehead::tests {

#if defined(__has_feature)
constexpr bool sanitized = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool sanitized = true;
#else
constexpr bool sanitized = false;
#endif

/// Runs the body on a thread whose stack has 128 KiB; 1 MiB when sanitized, for sanitizers need
/// room of their own.
inline void run_with_small_stack(void (*body)()) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  REQUIRE(pthread_attr_setstacksize(&attributes, sanitized ? 1 << 20 : 128 << 10) == 0);
  pthread_t thread;
  const auto entry = [](void* f) -> void* {
    reinterpret_cast<void (*)()>(f)();
    return nullptr;
  };
  REQUIRE(pthread_create(&thread, &attributes, entry, reinterpret_cast<void*>(body)) == 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

/// The shell's command that runs the test cases whose names match `cases`, with one more variable
/// in the environment.
inline std::string command_of_new_process(const std::string& cases, const std::string& variable,
                                          const std::string& value) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  return variable + "='" + value + "' '" + self + "' --test-case='" + cases + "'";
}

/// Runs them in a process of their own. Fails when they do.
inline void run_in_new_process(const std::string& cases, const std::string& variable,
                               const std::string& value) {
  const std::string command = command_of_new_process(cases, variable, value) + " >/dev/null";
  REQUIRE(std::system(command.c_str()) == 0);
}

/// Runs them in a process of their own, which must fail, and returns what it wrote.
inline std::string last_words(const std::string& cases, const std::string& variable,
                              const std::string& value) {
  const std::string command = command_of_new_process(cases, variable, value) + " 2>&1";
  std::FILE* output = popen(command.c_str(), "r");
  REQUIRE(output);
  std::string text;
  for (int c = std::fgetc(output); c != EOF; c = std::fgetc(output)) text += static_cast<char>(c);
  CHECK(pclose(output) != 0);
  return text;
}

}  // namespace tapehead::tests
