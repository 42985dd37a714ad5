#include <tapehead/nn/io/atomic_file.h>
#include <tapehead/nn/io/strict_json.h>

#include <nlohmann/json.hpp>
#include <set>

#include "../json_object.h"
#include "format.h"

namespace tapehead::program {
namespace {

using nlohmann::json;

DType parse_dtype(const JsonObject& tensor, const std::string& name) {
  for (const DType dtype : {DType::f32, DType::f64, DType::i64, DType::boolean})
    if (to_string(dtype) == name) return dtype;
  tensor.fail("the dtype \"" + name + "\" is not f64, f32, i64 or bool");
}

std::int64_t parse_integer(const JsonObject& at, const json& value) {
  const std::optional<std::int64_t> integer = io::integer_of(value);
  if (!integer) at.fail(io::shortened(value.dump()) + " is not a 64-bit integer");
  return *integer;
}

Shape parse_shape(JsonObject& tensor, const char* key) {
  Shape shape;
  for (const json& size : tensor.list(key)) {
    if (shape.rank() == Shape::max_rank) tensor.fail("more than 16 dims");
    shape.push_back(parse_integer(tensor, size));
    if (shape.back() < 0) tensor.fail("a size is negative");
  }
  return shape;
}

template <class T, class Parse>
Tensor parse_elements(const json& data, const Shape& shape, DType dtype, Parse&& parse) {
  std::vector<T> elements;
  elements.reserve(data.size());
  for (const json& element : data) elements.push_back(parse(element));
  return from_vector(elements, shape, dtype);
}

Tensor parse_values(JsonObject& tensor, const char* shape_key, const char* data_key, DType dtype) {
  const Shape shape = parse_shape(tensor, shape_key);
  const json& data = tensor.list(data_key);
  try {
    check_shape(shape_key, shape, size_of(dtype));
  } catch (const Error& error) {
    tensor.fail(error.what());
  }
  if (static_cast<std::int64_t>(data.size()) != numel(shape))
    tensor.fail(std::to_string(data.size()) + " entries of \"" + data_key +
                "\" do not fill shape " + to_string(shape));
  const auto bad = [&](const json& element) {
    tensor.fail(io::shortened(element.dump()) + " is no " + std::string(to_string(dtype)) +
                " element");
  };
  if (dtype == DType::i64)
    return parse_elements<std::int64_t>(data, shape, dtype,
                                        [&](const json& e) { return parse_integer(tensor, e); });
  if (dtype == DType::boolean)
    return parse_elements<bool>(data, shape, dtype, [&](const json& e) {
      if (!e.is_boolean()) bad(e);
      return e.get<bool>();
    });
  return parse_elements<double>(data, shape, dtype, [&](const json& e) {
    const std::optional<double> number = number_from_json(e);
    if (!number) bad(e);
    return *number;
  });
}

void parse_layout(JsonObject& object, CaseTensor& tensor) {
  if (!object.has("layout")) return;
  const std::string layout = object.text("layout");
  const int rank = tensor.values.rank();
  if (layout == "transposed") {
    if (rank < 2) object.fail("a transposed layout needs two dims");
    tensor.layout = Layout::transposed;
  } else if (layout == "expanded") {
    tensor.layout = Layout::expanded;
    tensor.base = parse_values(object, "base_shape", "base_data", tensor.values.dtype());
    if (tensor.base.rank() != rank) object.fail("the base has another rank than the tensor");
  } else if (layout == "sliced") {
    tensor.layout = Layout::sliced;
    tensor.slice_dim = object.integer("slice_dim");
    if (tensor.slice_dim < 0 || tensor.slice_dim >= rank) object.fail("slice_dim is out of range");
  } else {
    object.fail("the layout \"" + layout + "\" is not known");
  }
}

CaseTensor parse_tensor(JsonObject& object) {
  CaseTensor tensor;
  const DType dtype = parse_dtype(object, object.text("dtype"));
  tensor.values = parse_values(object, "shape", "data", dtype);
  parse_layout(object, tensor);
  return tensor;
}

CaseTensor parse_tensor(const json& value, const std::string& where) {
  JsonObject object(value, where);
  CaseTensor tensor = parse_tensor(object);
  object.finish();
  return tensor;
}

CaseTensor parse_input(const json& value, const std::string& where) {
  JsonObject object(value, where);
  CaseTensor input = parse_tensor(object);
  input.name = object.text("name");
  if (object.has("requires_grad")) {
    if (!object["requires_grad"].is_boolean()) object.fail("requires_grad is not true or false");
    input.requires_grad = object["requires_grad"].get<bool>();
    if (input.requires_grad && !is_floating(input.values.dtype()))
      object.fail("a tensor that is not floating cannot require a gradient");
  }
  object.finish();
  return input;
}

const CaseTensor* find_input(const Case& c, const std::string& name) {
  for (const CaseTensor& input : c.inputs)
    if (input.name == name) return &input;
  return nullptr;
}

void parse_inputs(JsonObject& object, Case& c) {
  for (const json& value : object.list("inputs")) {
    CaseTensor input =
        parse_input(value, object.where() + ": input " + std::to_string(c.inputs.size()));
    if (find_input(c, input.name)) object.fail("two inputs are named \"" + input.name + "\"");
    c.inputs.push_back(std::move(input));
  }
}

void parse_args(JsonObject& object, Case& c) {
  json args = object.object("args");
  const json alias = args.value("alias", json::array());
  args.erase("alias");
  c.args = std::make_shared<const json>(std::move(args));
  for (const json& name : alias) {
    if (!name.is_string()) object.fail("\"alias\" is not a list of names");
    c.alias.push_back(name.get<std::string>());
  }
  if (c.alias.empty()) return;
  if (c.alias.size() < 2 || !find_input(c, c.alias[0]))
    object.fail("\"alias\" does not begin with an input and go on with its other names");
  for (std::size_t i = 1; i < c.alias.size(); ++i)
    if (find_input(c, c.alias[i])) object.fail("the alias \"" + c.alias[i] + "\" is an input, too");
}

void parse_gradients(JsonObject& object, const Case& c, Expected& expected) {
  if (object.has("grad_outputs") != object.has("grads"))
    object.fail("of \"grad_outputs\" and \"grads\" one is missing");
  if (!object.has("grads")) return;
  for (const json& value : object.list("grad_outputs")) {
    const std::string where =
        object.where() + ": grad_outputs " + std::to_string(expected.grad_outputs.size());
    expected.grad_outputs.push_back(value.is_null() ? std::optional<CaseTensor>{}
                                                    : parse_tensor(value, where));
  }
  if (expected.grad_outputs.size() != expected.outputs.size())
    object.fail("\"grad_outputs\" and \"outputs\" differ in length");
  for (const auto& [name, value] : object.object("grads").items()) {
    const CaseTensor* input = find_input(c, name);
    if (!input || !input->requires_grad)
      object.fail("\"grads\" names \"" + name + "\", which is no input that requires a gradient");
    expected.grads.emplace(name, parse_tensor(value, object.where() + ": grads of " + name));
  }
  for (const CaseTensor& input : c.inputs)
    if (input.requires_grad && !expected.grads.contains(input.name))
      object.fail("\"grads\" lacks the input \"" + input.name + "\"");
}

Expected parse_expected(JsonObject& object, const Case& c) {
  Expected expected;
  for (const json& value : object.list("outputs"))
    expected.outputs.push_back(parse_tensor(
        value, object.where() + ": output " + std::to_string(expected.outputs.size())));
  parse_gradients(object, c, expected);
  expected.rtol = object.number("rtol");
  expected.atol = object.number("atol");
  if (!(expected.rtol >= 0 && expected.atol >= 0)) object.fail("a tolerance is negative or NaN");
  return expected;
}

ErrorKind parse_error_kind(JsonObject& object) {
  const std::string name = object.text("error");
  for (const ErrorKind kind :
       {ErrorKind::shape, ErrorKind::index, ErrorKind::dtype, ErrorKind::value, ErrorKind::state})
    if (to_string(kind) == name) return kind;
  object.fail("the error kind \"" + name + "\" is not shape, index, dtype, value or state");
}

Case parse_case(const json& value, const std::string& where) {
  JsonObject unnamed(value, where);
  Case c;
  c.name = unnamed.text("name");
  JsonObject object(value, "case " + c.name);
  (void)object.text("name");
  c.operation = object.text("op");
  parse_inputs(object, c);
  parse_args(object, c);
  if (object.has("error")) c.error = parse_error_kind(object);
  else c.expected = parse_expected(object, c);
  if (object.has("note")) (void)object.text("note");
  object.finish();
  return c;
}

std::vector<Case> parse_file(const json& value) {
  JsonObject file(value);
  if (file.text("format") != "tapehead-cases/1") file.fail("the format is not tapehead-cases/1");
  (void)file.text("source");
  std::vector<Case> cases;
  std::set<std::string> names;
  for (const json& entry : file.list("cases")) {
    cases.push_back(parse_case(entry, "case " + std::to_string(cases.size())));
    if (!names.insert(cases.back().name).second)
      file.fail("two cases are named " + cases.back().name);
  }
  file.finish();
  return cases;
}

}  // namespace

std::vector<Case> parse_case_file(std::string_view text, const std::string& source) {
  try {
    return parse_file(io::parse_json(text));
  } catch (const io::JsonError& error) {
    throw CaseFormatError(source + ": " + error.what());
  }
}

std::vector<Case> read_case_file(const std::filesystem::path& path) {
  return parse_case_file(io::read_file("cases", path), path.string());
}

}  // namespace tapehead::program
