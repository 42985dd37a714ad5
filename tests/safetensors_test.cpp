// safetensors: what is written, what is read back, and what is rejected. ST-4 (f16, bf16) stands in
// storage_dtypes_test.cpp.
#include "support/checks.h"
#include "support/folder.h"

#include <tapehead/core/dry_run.h>
#include <tapehead/nn/safetensors.h>
#include <tapehead/ops/compare_values.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/views.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

using namespace tapehead;
using namespace tapehead::nn;
using tests::check_throws;
using tests::Folder;

namespace {

std::string content_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write(const std::filesystem::path& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

std::string length_prefix(std::uint64_t length) {
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes;
}

// A file with this header and that many bytes of data: 1, 2, 3...
std::string make_file(const std::string& header, std::size_t data_bytes) {
  std::string content = length_prefix(header.size()) + header;
  for (std::size_t i = 1; i <= data_bytes; ++i) content += static_cast<char>(i);
  return content;
}

Safetensors load(const std::string& content) {
  const Folder folder;
  write(folder.file(), content);
  return load_safetensors(folder.file());
}

void rejects(const std::string& content, const std::string& text) {
  check_throws(ErrorKind::value, {"load_safetensors", text}, [&] { load(content); });
}

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape +
         ",\"data_offsets\":" + offsets + "}";
}

}  // namespace

TEST_CASE("tensors of every dtype and layout come back with names, values and metadata") {
  const Folder folder;
  const Tensor grid = tensor({{1, 2, 3}, {4, 5, 6}});
  const StateDict written = {
      {"flags", tensor({1, 0, 1}, DType::boolean)},
      {"transposed", transpose(grid, 0, 1)},
      {"expanded", expand(tensor({{1}, {2}}, DType::f64), {2, 4})},
      {"counts", tensor({-1, 9007199254740992.0}, DType::i64)},
      {"scalar", tensor(0.1, DType::f64)},
      {"empty", zeros({0, 3})},
  };
  const Metadata metadata = {{"format", "pt"}, {"note", "a \"quoted\" word\n"}};
  save_safetensors(folder.file(), written, metadata);
  const Safetensors read = load_safetensors(folder.file());
  CHECK(read.metadata == metadata);
  REQUIRE(read.tensors.size() == written.size());
  for (const NamedTensor& was : written) {
    bool found = false;
    for (const NamedTensor& is : read.tensors)
      if (is.name == was.name) {
        found = true;
        CHECK_MESSAGE(equal(is.tensor, was.tensor), was.name);
        CHECK(is.tensor.is_contiguous());
      }
    CHECK_MESSAGE(found, was.name);
  }
}

TEST_CASE("the bytes are those of the format: sorted, aligned, and the same each time") {
  const Folder folder;
  const StateDict tensors = {
      {"b", tensor({1, 0}, DType::boolean)}, {"a", tensor({1.5})}, {"c", tensor(2, DType::i64)}};
  save_safetensors(folder.file("one"), tensors);
  const std::string content = content_of(folder.file("one"));
  const std::string header = R"({"a":{"data_offsets":[8,12],"dtype":"F32","shape":[1]},)"
                             R"("b":{"data_offsets":[12,14],"dtype":"BOOL","shape":[2]},)"
                             R"("c":{"data_offsets":[0,8],"dtype":"I64","shape":[]}})";
  const std::size_t padded = (header.size() + 7) / 8 * 8;
  const std::string data =
      std::string("\2\0\0\0\0\0\0\0", 8) + std::string("\0\0\xC0\x3F", 4) + std::string("\1\0", 2);
  CHECK(content ==
        length_prefix(padded) + header + std::string(padded - header.size(), ' ') + data);
  save_safetensors(folder.file("two"), {tensors[2], tensors[0], tensors[1]});
  CHECK(content_of(folder.file("two")) == content);
}

TEST_CASE("saving replaces the file whole, and a failed save leaves it and nothing else") {
  const Folder folder;
  save_safetensors(folder.file(), {{"x", tensor({1, 2})}});
  const std::string before = content_of(folder.file());
  const auto fails = [&](ErrorKind kind, const StateDict& tensors, const Metadata& metadata = {}) {
    check_throws(kind, {}, [&] { save_safetensors(folder.file(), tensors, metadata); });
    CHECK(content_of(folder.file()) == before);
    CHECK(folder.size() == 1);
  };
  fails(ErrorKind::value, {{"x", tensor(1)}, {"x", tensor(2)}});
  fails(ErrorKind::value, {{"__metadata__", tensor(1)}});
  fails(ErrorKind::value, {{"\xFF", tensor(1)}});
  fails(ErrorKind::value, {}, {{"key", "\xC3"}});
  Tensor dry;
  {
    const DryRun run;
    dry = zeros({2});
  }
  fails(ErrorKind::state, {{"x", tensor(1)}, {"y", dry}});
  save_safetensors(folder.file(), {{"x", tensor({3})}});
  CHECK(load_safetensors(folder.file()).tensors[0].tensor.item() == 3);
  CHECK(folder.size() == 1);
  check_throws(ErrorKind::io, {"no such folder"},
               [&] { save_safetensors(folder.file("no such folder") / "x", {}); });
}

TEST_CASE("files that cannot be read are io errors that name the path") {
  const Folder folder;
  check_throws(ErrorKind::io, {"absent", "does not exist"},
               [&] { load_safetensors(folder.file("absent")); });
  check_throws(ErrorKind::io, {"no regular file"},
               [&] { load_safetensors(folder.file().parent_path()); });
}

TEST_CASE("a dry run reads shapes without values") {
  const Folder folder;
  save_safetensors(folder.file(), {{"x", tensor({1, 2})}});
  const DryRun run;
  const Safetensors read = load_safetensors(folder.file());
  CHECK(read.tensors[0].tensor.shape() == Shape{2});
  check_throws(ErrorKind::state, {"dry run"}, [&] { read.tensors[0].tensor.to_vector(); });
}

// ---- hostile files -----------------------------------------------------------------------------

TEST_CASE("ST-1 hostile header lengths are rejected before anything is allocated") {
  for (std::size_t size = 0; size < 8; ++size) rejects(std::string(size, '\1'), "8 bytes");
  rejects(length_prefix(0), "does not start with {");
  const std::string rest = "{}      ";
  for (const std::uint64_t length :
       {~std::uint64_t{0}, std::uint64_t{1} << 63, std::uint64_t{16}, std::uint64_t{9}})
    rejects(length_prefix(length) + rest, "does not fit the file");
  CHECK(load(length_prefix(8) + rest).tensors.empty());
}

TEST_CASE("ST-2 offsets that do not fit shape and dtype are rejected") {
  const auto with = [](const std::string& shape, const std::string& offsets) {
    return make_file("{" + entry("w", "F32", shape, offsets) + "}", 4);
  };
  CHECK(load(with("[1]", "[0,4]")).tensors.size() == 1);
  rejects(with("[1000,1000]", "[0,4]"), "needs 4000000 bytes");
  rejects(with("[1000,1000]", "[0,4000000]"), "ends before");
  rejects(with("[1]", "[4,0]"), "data_offsets");
  rejects(with("[1]", "[0]"), "data_offsets");
  rejects(with("[1]", "[0,4,8]"), "data_offsets");
  rejects(with("[1]", "[0,-4]"), "data_offsets");
  rejects(with("[1]", "[0,4.0]"), "data_offsets");
  rejects(with("[1]", "4"), "data_offsets");
  rejects(with("[-1]", "[0,4]"), "shape");
  rejects(with("[1.0]", "[0,4]"), "shape");
  rejects(with("[4294967296,4294967296]", "[0,0]"), "impossible shape");
  rejects(with("[18446744073709551615]", "[0,4]"), "impossible shape");
  rejects(with("[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "[0,4]"), "17 dims");
}

TEST_CASE("ST-3 duplicates, overlaps, gaps and leftovers are rejected, each by its name") {
  const auto two = [](const char* first, const char* second, const std::string& name,
                      std::size_t bytes) {
    return make_file(
        "{" + entry("v", "F32", "[2]", first) + "," + entry(name, "F32", "[2]", second) + "}",
        bytes);
  };
  CHECK(load(two("[0,8]", "[8,16]", "w", 16)).tensors.size() == 2);
  rejects(two("[0,8]", "[8,16]", "v", 16), "twice");
  rejects(two("[0,8]", "[4,12]", "w", 12), "overlaps");
  rejects(two("[0,8]", "[0,8]", "w", 8), "overlaps");
  rejects(two("[0,8]", "[12,20]", "w", 20), "gap");
  rejects(two("[4,12]", "[12,20]", "w", 20), "gap");
  rejects(two("[0,8]", "[8,16]", "w", 20), "4 bytes after the last tensor");
}

TEST_CASE("ST-5 legal but unusual files load, and come back the same when written again") {
  const std::string header =
      R"({  "\u5c64.weight" : {"shape":[2],"data_offsets":[0,8],"dtype":"F32"},)"
      R"("\ud83d\ude00":{"dtype":"BOOL","shape":[0],"data_offsets":[8,8]},)"
      R"("":{"dtype":"F32","shape":[],"data_offsets":[16,20]},)"
      R"("a\"b":{"dtype":"F64","shape":[1],"data_offsets":[8,16]},)"
      R"("x/y":{"dtype":"F32","shape":[1,1],"data_offsets":[20,24]}}        )";
  std::string content = length_prefix(header.size()) + header;
  const float f32[] = {1.5f, -2.0f, 3.25f, 7.0f};
  const double f64 = 0.1;
  content.append(reinterpret_cast<const char*>(f32), 8);
  content.append(reinterpret_cast<const char*>(&f64), 8);
  content.append(reinterpret_cast<const char*>(f32 + 2), 8);
  const Safetensors first = load(content);
  std::vector<std::string> names;
  for (const NamedTensor& tensor : first.tensors) names.push_back(tensor.name);
  CHECK(names ==
        std::vector<std::string>{"\xE5\xB1\xA4.weight", "\xF0\x9F\x98\x80", "a\"b", "", "x/y"});
  CHECK(first.tensors[0].tensor.to_vector() == std::vector<double>{1.5, -2});
  CHECK(first.tensors[1].tensor.shape() == Shape{0});
  CHECK(first.tensors[2].tensor.to_vector() == std::vector<double>{0.1});
  CHECK(first.tensors[3].tensor.shape() == Shape{});
  CHECK(first.tensors[3].tensor.item() == 3.25);
  const Folder folder;
  save_safetensors(folder.file(), first.tensors);
  const Safetensors second = load_safetensors(folder.file());
  for (const NamedTensor& was : first.tensors)
    for (const NamedTensor& is : second.tensors)
      if (is.name == was.name) CHECK(equal(is.tensor, was.tensor));
  CHECK(second.tensors.size() == first.tensors.size());
}

TEST_CASE("headers that are not the format's JSON are rejected") {
  rejects(make_file("[]", 0), "does not start with {");
  rejects(make_file(" {}", 0), "does not start with {");
  rejects(make_file("{\"a\":", 0), "not JSON");
  rejects(make_file("{} x", 0), "not JSON");
  rejects(make_file("{\"\xFF\":1}", 0), "not JSON");
  rejects(make_file("{\"a\":1}", 0), "no object");
  rejects(make_file("{\"a\":{}}", 0), "shape");
  rejects(make_file(R"({"a":{"shape":[],"data_offsets":[0,4]}})", 4), "no dtype");
  rejects(make_file(R"({"a":{"shape":[],"shape":[],"dtype":"F32","data_offsets":[0,4]}})", 4),
          "twice");
  rejects(make_file(R"({"a":{"dtype":"F32","shape":[],"data_offsets":[0,4],"more":1}})", 4),
          "unknown");
  rejects(make_file(R"({"a":{"shape":[1e400],"dtype":"F32","data_offsets":[0,4]}})", 4),
          "the header: at a.shape[0]: a number is beyond float64");
  rejects(make_file(R"({"__metadata__":{"a":1}})", 0), "no string");
  rejects(make_file(R"({"__metadata__":[]})", 0), "no object");
  std::string deep = "{\"a\":";
  deep.append(100000, '[');
  rejects(make_file(deep, 0), "too deeply");
}

TEST_CASE("element types that are not held are dtype errors that name type and tensor") {
  for (const std::string type : {"U16", "U8", "F8_E4M3", "bool"})
    check_throws(ErrorKind::dtype, {"\"w\"", type},
                 [&] { load(make_file("{" + entry("w", type, "[2]", "[0,4]") + "}", 4)); });
}

TEST_CASE("a bool tensor whose bytes are not 0 or 1 is rejected") {
  rejects(make_file("{" + entry("w", "BOOL", "[2]", "[0,2]") + "}", 2), "not 0 or 1");
}
