#include <tapehead/core/arithmetic.h>
#include <tapehead/core/dry_run.h>
#include <tapehead/nn/io/atomic_file.h>
#include <tapehead/nn/io/strict_json.h>
#include <tapehead/nn/safetensors.h>

#include <algorithm>
#include <array>
#include <bit>
#include <fstream>
#include <limits>
#include <optional>
#include <span>
#include <tuple>

namespace tapehead::nn {
namespace {

static_assert(std::endian::native == std::endian::little, "the format's bytes are little-endian");

using Json = nlohmann::json;

constexpr std::size_t length_bytes = 8;
constexpr std::uint64_t longest_header = 100'000'000;  // the limit of the reference implementation
constexpr const char* metadata_key = "__metadata__";

constexpr std::array format_dtypes = {
    std::pair{DType::f32, "F32"}, std::pair{DType::f64, "F64"}, std::pair{DType::bf16, "BF16"},
    std::pair{DType::f16, "F16"}, std::pair{DType::i64, "I64"}, std::pair{DType::boolean, "BOOL"},
};

std::string quoted(const std::string& name) { return "\"" + name + "\""; }

// ---- writing -----------------------------------------------------------------------------------

std::string_view format_name(DType dtype) {
  for (const auto& [known, name] : format_dtypes)
    if (known == dtype) return name;
  throw DTypeError("save_safetensors", std::string(to_string(dtype)) + " is not written");
}

// The order of the bytes: wide elements first, so that every tensor is aligned; then by name.
StateDict sorted_for_writing(StateDict tensors) {
  std::sort(tensors.begin(), tensors.end(), [](const NamedTensor& a, const NamedTensor& b) {
    const std::size_t a_size = size_of(a.tensor.dtype()), b_size = size_of(b.tensor.dtype());
    return a_size != b_size ? a_size > b_size : a.name < b.name;
  });
  return tensors;
}

// Padded with spaces, so that the data starts aligned.
std::string header_text(const StateDict& tensors, const Metadata& metadata) {
  Json header = Json::object();
  if (!metadata.empty()) header[metadata_key] = metadata;
  std::uint64_t begin = 0;
  for (const auto& [name, tensor] : tensors) {
    if (name == metadata_key || header.contains(name))
      throw ValueError("save_safetensors", "name " + quoted(name) + " is reserved or given twice");
    const std::uint64_t end = begin + static_cast<std::uint64_t>(tensor.nbytes());
    header[name] = {{"dtype", format_name(tensor.dtype())},
                    {"shape", std::vector(tensor.shape().begin(), tensor.shape().end())},
                    {"data_offsets", {begin, end}}};
    begin = end;
  }
  try {
    std::string text = header.dump();
    text.append((length_bytes - text.size() % length_bytes) % length_bytes, ' ');
    return text;
  } catch (const Json::type_error& error) {
    throw ValueError("save_safetensors", std::string("a string is not UTF-8: ") + error.what());
  }
}

// ---- reading -----------------------------------------------------------------------------------

// A file being read. Every complaint names it.
class Reader {
 public:
  explicit Reader(const std::filesystem::path& path) : path_(path.string()) {
    std::error_code error;
    if (!std::filesystem::exists(path, error)) fail_to_read("does not exist");
    if (!std::filesystem::is_regular_file(path, error)) fail_to_read("is no regular file");
    size_ = std::filesystem::file_size(path, error);
    file_.open(path, std::ios::binary);
    if (error || !file_) fail_to_read("cannot be read");
  }

  std::uint64_t size() const { return size_; }

  void read(std::span<std::byte> to) {
    file_.read(reinterpret_cast<char*>(to.data()), static_cast<std::streamsize>(to.size()));
    if (!file_) fail_to_read("cannot be read to its end");
  }

  [[noreturn]] void reject(const std::string& what) const {
    throw ValueError("load_safetensors", path_ + ": " + what);
  }
  template <class ErrorType>
  [[noreturn]] void fail(const std::string& what) const {
    throw ErrorType("load_safetensors", path_ + ": " + what);
  }

 private:
  [[noreturn]] void fail_to_read(const std::string& what) const {
    throw IoError("load_safetensors", path_ + " " + what);
  }

  std::string path_;
  std::uint64_t size_ = 0;
  std::ifstream file_;
};

// What the header says of one tensor, checked by itself.
struct Entry {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  std::uint64_t begin = 0, end = 0;  // from the start of the data
};

std::string read_header(Reader& reader) {
  if (reader.size() < length_bytes)
    reader.reject("shorter than the 8 bytes of the header's length");
  std::array<std::byte, length_bytes> bytes;
  reader.read(bytes);
  const auto length = std::bit_cast<std::uint64_t>(bytes);
  if (length > reader.size() - length_bytes || length > longest_header)
    reader.reject("a header of " + std::to_string(length) + " bytes does not fit the file");
  std::string text(static_cast<std::size_t>(length), '\0');
  reader.read(std::as_writable_bytes(std::span(text)));
  if (text.empty() || text.front() != '{') reader.reject("the header does not start with {");
  return text;
}

Json parse_header(const Reader& reader, const std::string& text) {
  constexpr std::size_t deepest = 3;  // an object of objects of lists
  try {
    return io::parse_json(text, deepest);
  } catch (const io::JsonError& error) {
    reader.reject(std::string("the header: ") + error.what());
  }
}

Metadata read_metadata(const Reader& reader, const Json& json) {
  Metadata metadata;
  if (!json.is_object()) reader.reject("__metadata__ is no object");
  for (const auto& [key, value] : json.items()) {
    if (!value.is_string()) reader.reject("__metadata__ " + quoted(key) + " is no string");
    metadata.emplace(key, value.get<std::string>());
  }
  return metadata;
}

// A list of non-negative whole numbers; nothing when it is something else.
std::optional<std::vector<std::uint64_t>> read_numbers(const Json& json, const char* key) {
  if (!json.contains(key) || !json[key].is_array()) return std::nullopt;
  std::vector<std::uint64_t> numbers;
  for (const Json& number : json[key]) {
    if (!number.is_number_unsigned()) return std::nullopt;
    numbers.push_back(number.get<std::uint64_t>());
  }
  return numbers;
}

DType read_dtype(const Reader& reader, const Json& json, const std::string& tensor) {
  if (!json.contains("dtype") || !json["dtype"].is_string()) reader.reject(tensor + "has no dtype");
  const auto text = json["dtype"].get<std::string>();
  for (const auto& [dtype, name] : format_dtypes)
    if (text == name) return dtype;
  reader.fail<DTypeError>(tensor + "has element type " + quoted(text) +
                          ", which is not F32, F64, BF16, F16, I64 or BOOL");
}

Shape read_shape(const Reader& reader, const std::vector<std::uint64_t>& sizes,
                 const std::string& tensor) {
  constexpr auto largest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (sizes.size() > static_cast<std::size_t>(Dims::max_rank))
    reader.reject(tensor + "has " + std::to_string(sizes.size()) + " dims");
  Shape shape;
  for (const std::uint64_t size : sizes) {
    if (size > largest) reader.reject(tensor + "has an impossible shape");
    shape.push_back(static_cast<std::int64_t>(size));
  }
  return shape;
}

Entry read_entry(const Reader& reader, const std::string& name, const Json& json) {
  const std::string tensor = "tensor " + quoted(name) + " ";
  if (!json.is_object()) reader.reject(tensor + "is no object");
  for (const auto& [key, value] : json.items())
    if (key != "dtype" && key != "shape" && key != "data_offsets")
      reader.reject(tensor + "has an unknown entry " + quoted(key));
  const auto sizes = read_numbers(json, "shape");
  const auto offsets = read_numbers(json, "data_offsets");
  if (!sizes) reader.reject(tensor + "has no list of sizes as its shape");
  if (!offsets || offsets->size() != 2)
    reader.reject(tensor + "has no two numbers as its data_offsets");
  Entry entry{name, read_dtype(reader, json, tensor), read_shape(reader, *sizes, tensor),
              (*offsets)[0], (*offsets)[1]};
  try {
    check_shape("load_safetensors", entry.shape, size_of(entry.dtype));
  } catch (const Error&) {
    reader.reject(tensor + "has an impossible shape");
  }
  const std::uint64_t bytes = static_cast<std::uint64_t>(numel(entry.shape)) * size_of(entry.dtype);
  if (entry.end < entry.begin || entry.end - entry.begin != bytes)
    reader.reject(tensor + "of shape " + to_string(entry.shape) + " needs " +
                  std::to_string(bytes) + " bytes, and its data_offsets are " +
                  std::to_string(entry.begin) + " and " + std::to_string(entry.end));
  return entry;
}

// The tensors lie one after another, from the start of the data to its end.
void check_cover(const Reader& reader, std::vector<Entry>& entries, std::uint64_t data_bytes) {
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  std::uint64_t covered = 0;
  for (const Entry& entry : entries) {
    if (entry.begin < covered) reader.reject("tensor " + quoted(entry.name) + " overlaps another");
    if (entry.begin > covered) reader.reject("there is a gap before tensor " + quoted(entry.name));
    covered = entry.end;
  }
  if (covered > data_bytes) reader.reject("the file ends before its last tensor does");
  if (covered < data_bytes)
    reader.reject("there are " + std::to_string(data_bytes - covered) +
                  " bytes after the last tensor");
}

void read_values(Reader& reader, const Entry& entry, const Tensor& tensor) {
  const std::span bytes = tensor.any_view().bytes();
  reader.read(bytes);
  if (entry.dtype != DType::boolean) return;
  for (const std::byte value : bytes)
    if (value > std::byte{1})
      reader.reject("tensor " + quoted(entry.name) +
                    " is BOOL and holds a byte that is not 0 or 1");
}

}  // namespace

void save_safetensors(const std::filesystem::path& path, const StateDict& tensors,
                      const Metadata& metadata) {
  for (const auto& [name, tensor] : tensors)
    check_defined("save_safetensors", quoted(name), tensor);
  const StateDict sorted = sorted_for_writing(tensors);
  const std::string header = header_text(sorted, metadata);
  const auto length =
      std::bit_cast<std::array<std::byte, length_bytes>>(static_cast<std::uint64_t>(header.size()));
  io::AtomicFile file("save_safetensors", path);
  file.write(length);
  file.write(header);
  for (const auto& [name, tensor] : sorted) {
    const Tensor row_major = tensor.is_contiguous() ? tensor : copied("save_safetensors", tensor);
    file.write(row_major.any_view().bytes());
  }
  file.commit();
}

Safetensors load_safetensors(const std::filesystem::path& path) {
  Reader reader(path);
  const std::string text = read_header(reader);
  const std::uint64_t data_bytes = reader.size() - length_bytes - text.size();
  const Json header = parse_header(reader, text);
  Safetensors loaded;
  std::vector<Entry> entries;
  for (const auto& [name, json] : header.items()) {
    if (name == metadata_key) loaded.metadata = read_metadata(reader, json);
    else entries.push_back(read_entry(reader, name, json));
  }
  check_cover(reader, entries, data_bytes);
  for (const Entry& entry : entries) {
    const Tensor tensor = empty("load_safetensors", entry.shape, entry.dtype, Category::input);
    launch([&] { read_values(reader, entry, tensor); });
    loaded.tensors.push_back({entry.name, tensor});
  }
  return loaded;
}

}  // namespace tapehead::nn
