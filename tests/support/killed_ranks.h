// Ranks that are killed while they train.
#pragma once

#include "folder.h"

#include <cstdint>
#include <string>

namespace tapehead::tests {

/// Writes a text to learn from, text.txt.
void write_text(const Folder& folder);

/// What the shell does to wait for a file.
std::string wait_for(const std::string& file);

/// `times` over: two or three ranks train, and one of them is killed up to `longest_wait` seconds
/// after the first save; which, and when, is drawn from `seed`. Checks that the others end within a
/// minute, say so in one line, and leave files that can be read and gone on with.
void kill_ranks(int times, double longest_wait, std::uint64_t seed);

}  // namespace tapehead::tests
