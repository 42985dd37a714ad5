#include "corpus.h"

#include <tapehead/core/error.h>
#include <tapehead/nn/io/atomic_file.h>

#include <algorithm>
#include <set>

#include "../utf8.h"

namespace tapehead::program {
namespace {

constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
constexpr std::size_t held_out_part = 10;  // one tenth

// http://www.isthe.com/chongo/tech/comp/fnv, 64 bits.
std::uint64_t fnv1a(std::string_view bytes, std::uint64_t hash) {
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

std::vector<char32_t> read_text(const std::filesystem::path& path, std::uint64_t& checksum) {
  const std::string content = io::read_file("text", path);
  checksum = fnv1a(content, checksum);
  std::string_view text = content;
  if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
  if (text.empty()) throw ValueError("text", path.string() + ": the file is empty");
  return decode_utf8(text, path.string());
}

void append(std::vector<Token>& tokens, const std::vector<Token>& piece, std::size_t begin,
            std::size_t end) {
  tokens.insert(tokens.end(), piece.begin() + static_cast<std::ptrdiff_t>(begin),
                piece.begin() + static_cast<std::ptrdiff_t>(end));
}

}  // namespace

Vocabulary::Vocabulary(std::span<const char32_t> text) {
  const std::set<char32_t> distinct(text.begin(), text.end());
  code_points_.assign(distinct.begin(), distinct.end());
}

std::optional<Token> Vocabulary::find(char32_t character) const {
  const auto found = std::lower_bound(code_points_.begin(), code_points_.end(), character);
  if (found == code_points_.end() || *found != character) return {};
  return static_cast<Token>(found - code_points_.begin());
}

std::vector<Token> Vocabulary::encode(std::span<const char32_t> text,
                                      const std::string& source) const {
  std::vector<Token> tokens;
  tokens.reserve(text.size());
  for (const char32_t c : text) {
    const std::optional<Token> token = find(c);
    if (!token) {
      std::string character;
      append_utf8(character, c);
      throw ValueError("text",
                       source + ": the model does not know the character \"" + character + "\"");
    }
    tokens.push_back(*token);
  }
  return tokens;
}

std::string Vocabulary::decode(std::span<const std::int64_t> tokens) const {
  std::string text;
  for (const std::int64_t token : tokens)
    append_utf8(text, code_points_.at(static_cast<std::size_t>(token)));
  return text;
}

std::string Vocabulary::characters() const {
  std::string text;
  for (const char32_t c : code_points_) append_utf8(text, c);
  return text;
}

Corpus read_corpus(const std::vector<std::filesystem::path>& files) {
  Corpus corpus;
  corpus.checksum = 0xcbf29ce484222325u;
  std::vector<char32_t> text;
  std::vector<std::size_t> ends;
  for (const std::filesystem::path& file : files) {
    const std::vector<char32_t> piece = read_text(file, corpus.checksum);
    text.insert(text.end(), piece.begin(), piece.end());
    ends.push_back(text.size());
  }
  corpus.vocabulary = Vocabulary(text);
  const std::vector<Token> tokens = corpus.vocabulary.encode(text, "text");
  for (std::size_t begin = 0; const std::size_t end : ends) {
    const std::size_t kept = end - (end - begin) / held_out_part;
    append(corpus.train, tokens, begin, kept);
    append(corpus.held_out, tokens, kept, end);
    begin = end;
  }
  return corpus;
}

}  // namespace tapehead::program
