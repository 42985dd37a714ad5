// The text that a language model learns from: its characters as tokens, and a part held out.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tapehead::program {

using Token = std::int32_t;

/// The characters that a model knows, as Unicode code points; a token is the rank of its character.
class Vocabulary {
 public:
  Vocabulary() = default;
  /// The distinct code points among these, in ascending order.
  explicit Vocabulary(std::span<const char32_t> text);

  std::int64_t size() const { return static_cast<std::int64_t>(code_points_.size()); }
  /// The token of a character; nothing for one that is not in the vocabulary.
  std::optional<Token> find(char32_t character) const;
  /// ValueError names a character that is not in the vocabulary; `source` is where it came from.
  std::vector<Token> encode(std::span<const char32_t> text, const std::string& source) const;
  std::string decode(std::span<const std::int64_t> tokens) const;
  /// All characters as one UTF-8 string: what a file stores.
  std::string characters() const;

 private:
  std::vector<char32_t> code_points_;  // ascending
};

/// The last tenth of each file is held out, so that both parts hold every kind of text. Each is the
/// concatenation of its pieces in the order of the files.
struct Corpus {
  Vocabulary vocabulary;  ///< of the whole text, so that no held-out character is unknown
  std::vector<Token> train;
  std::vector<Token> held_out;
  std::uint64_t checksum = 0;  ///< of the files' contents in their order (FNV-1a)
};

/// IoError for a file that cannot be read; ValueError for one that is empty or not UTF-8. A byte
/// order mark at a file's start is no part of the text.
Corpus read_corpus(const std::vector<std::filesystem::path>& files);

}  // namespace tapehead::program
