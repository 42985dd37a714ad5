// tapehead plan: its figures are those of a real run, and what it says of models, files and memory.
#include "../tools/program/plan/plan.h"
#include "../tools/program/plan/models.h"
#include "../tools/program/plan/report.h"
#include "support/checks.h"
#include "support/folder.h"
#include "support/program.h"

#include <tapehead/graph/formula_value.h>
#include <tapehead/graph/text.h>
#include <tapehead/nn/io/atomic_file.h>
#include <tapehead/nn/optimizer.h>
#include <tapehead/tapehead.h>

#include <sys/wait.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>

using namespace tapehead;
using namespace tapehead::program;
using nlohmann::json;
using tests::check_throws;
using tests::contains;
using tests::run_program;

namespace {

// Every size different, so that no two figures agree by accident.
TrainingSetup small_setup() {
  return {.model = {.vocab_size = 19, .context = 7, .layers = 3, .heads = 2, .dim = 12},
          .batch = 5};
}

std::vector<TrainingSetup> small_setups() {
  std::vector<TrainingSetup> setups;
  for (const nn::AttentionPath path : {nn::AttentionPath::composed, nn::AttentionPath::fused})
    for (const nn::Checkpointed checkpoint :
         {nn::Checkpointed::none, nn::Checkpointed::attention, nn::Checkpointed::block})
      for (const PlanOptimizer optimizer : {PlanOptimizer::sgd, PlanOptimizer::adamw}) {
        TrainingSetup setup = small_setup();
        setup.model.path = path;
        setup.model.checkpoint = checkpoint;
        setup.model.dropout = optimizer == PlanOptimizer::sgd ? 0.1 : 0;
        setup.model.tied_output = optimizer == PlanOptimizer::adamw;
        setup.optimizer = optimizer;
        setups.push_back(setup);
      }
  return setups;
}

// What the allocator says of two steps with data, the second of which is measured.
struct RealRun {
  std::int64_t parameters = 0, optimizer_state = 0, saved_activations = 0, peak = 0;
};

struct Data {
  Tensor tokens, targets;
};

Data make_data(const TrainingSetup& setup) {
  const std::int64_t batch = setup.batch, time = setup.model.context;
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(batch * time));
  for (std::size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = static_cast<std::int64_t>(i) % setup.model.vocab_size;
  return {from_vector(numbers, {batch, time}), from_vector(numbers, {batch * time})};
}

Tensor loss_of(const nn::Gpt& gpt, const Data& data) {
  const Tensor logits = gpt(data.tokens);
  return cross_entropy(reshape(logits, {-1, gpt.options().vocab_size}), data.targets);
}

// Bytes that the record of a forward pass alone keeps alive.
std::int64_t kept_by_tape(const nn::Gpt& gpt, const Data& data) {
  const std::int64_t before = memory_stats().live;
  const Tape tape;
  loss_of(gpt, data);
  return memory_stats().live - before;
}

std::unique_ptr<nn::Optimizer> optimizer_of(const TrainingSetup& setup, const nn::Gpt& gpt) {
  if (setup.optimizer == PlanOptimizer::sgd) return std::make_unique<nn::SGD>(gpt);
  return std::make_unique<nn::AdamW>(gpt);
}

RealRun run_with_data(const TrainingSetup& setup) {
  RealRun run;
  const std::int64_t before = memory_stats().live;
  Generator generator(3);
  const nn::Gpt gpt(setup.model, generator);
  run.parameters = memory_stats().live - before;
  const auto optimizer = optimizer_of(setup, gpt);
  const Data data = make_data(setup);
  const std::int64_t stateless = memory_stats().live;
  run.saved_activations = kept_by_tape(gpt, data);
  for (int step = 0; step < 2; ++step) {
    run.optimizer_state = memory_stats().live - stateless;
    reset_peak();
    Gradients gradients;
    {
      Tape tape;
      const Tensor loss = loss_of(gpt, data);
      gradients = tape.gradient(loss, gpt.parameters());
    }
    optimizer->step(gradients);
    run.peak = memory_stats().peak - before;
  }
  return run;
}

const char* const small_model_json =
    R"({"layers": 3, "heads": 2, "dim": 12, "context": 7, "vocabulary": 19})";

}  // namespace

// ---- figures -----------------------------------------------------------------------------------

TEST_CASE("parameters, optimizer state, saved activations and peak are those of a real run") {
  for (const TrainingSetup& setup : small_setups()) {
    CAPTURE(static_cast<int>(setup.model.path));
    CAPTURE(static_cast<int>(setup.model.checkpoint));
    CAPTURE(static_cast<int>(setup.optimizer));
    const RealRun real = run_with_data(setup);
    const Costs costs = costs_of(training_step(setup));
    CHECK(costs.parameters == real.parameters);
    CHECK(costs.optimizer_state == real.optimizer_state);
    CHECK(costs.saved_activations == real.saved_activations);
    CHECK(costs.peak == real.peak);
    CHECK(costs.gradients == costs.parameters);
    CHECK(std::accumulate(costs.at_peak.begin(), costs.at_peak.end(), std::int64_t{0}) ==
          costs.peak);
    CHECK(costs.most_reserved > costs.peak);
    CHECK(costs.planned == 0);
  }
}

TEST_CASE("the modules' figures add up to the totals, and layers are folded") {
  for (const TrainingSetup& setup : small_setups()) {
    const Costs costs = costs_of(training_step(setup));
    CHECK(costs.modules.parameters == costs.parameters);
    CHECK(costs.modules.activations == costs.saved_activations);
    CHECK(costs.modules.flops == costs.flops);
    std::int64_t parameters = 0;
    for (const graph::ModuleRow& row : graph::table_rows(costs.modules))
      if (row.label.ends_with("0-2 x 3")) parameters = row.sums.parameters;
    CHECK(parameters == 3 * 4 * (12 * 12 * 12 + 13 * 12));  // 12 d^2 + 13 d numbers a layer
  }
}

TEST_CASE("the named models have the numbers of parameters that they are known for") {
  const auto numbers = [](const char* name) {
    return costs_of(training_step({.model = plan_model(name)})).parameters / 4;
  };
  CHECK(numbers("gpt2") == 124'439'808);
  CHECK(numbers("gpt2-medium") == 354'823'168);
  CHECK(numbers("gpt2-large") == 774'030'080);
  CHECK(numbers("gpt2-xl") == 1'557'611'200);
  CHECK(numbers("7b") == 6'840'524'800);
}

TEST_CASE("bf16 takes half the bytes of f32, and is marked as planned") {
  TrainingSetup setup = small_setup();
  const Costs single = costs_of(training_step(setup));
  setup.model.dtype = DType::bf16;
  const Costs half = costs_of(training_step(setup));
  CHECK(2 * half.parameters == single.parameters);
  CHECK(2 * half.optimizer_state == single.optimizer_state);
  CHECK(half.planned > 0);
  CHECK(half.flops == single.flops);
  CHECK(contains(plan_text({.name = "x", .setup = setup, .costs = half}), "planned, not proven"));
}

TEST_CASE("checkpoints save less, and what is computed again is counted apart") {
  TrainingSetup setup = small_setup();
  const Costs plain = costs_of(training_step(setup));
  CHECK(plain.recomputed == 0);
  for (const nn::Checkpointed checkpoint : {nn::Checkpointed::attention, nn::Checkpointed::block}) {
    setup.model.checkpoint = checkpoint;
    const Costs costs = costs_of(training_step(setup));
    CHECK(costs.saved_activations < plain.saved_activations);
    CHECK(costs.flops == plain.flops);
    CHECK(costs.recomputed > 0);
    CHECK(costs.recomputed < costs.flops);
  }
}

TEST_CASE("an attention that is a checkpoint counts in its module") {
  TrainingSetup setup = small_setup();
  const auto of_attention = [&] {
    for (const graph::ModuleRow& row : graph::table_rows(costs_of(training_step(setup)).modules))
      if (row.label.ends_with("self_attn")) return row.sums;
    return graph::ModuleSums();
  };
  const graph::ModuleSums plain = of_attention();
  setup.model.checkpoint = nn::Checkpointed::attention;
  const graph::ModuleSums checkpointed = of_attention();
  CHECK(plain.flops > 0);
  CHECK(checkpointed.flops == plain.flops);
  CHECK(checkpointed.operations == 3);                    // one in each layer
  CHECK(checkpointed.activations == 3 * 5 * 7 * 12 * 4);  // what enters it: L*B*T*d
}

TEST_CASE("closed forms hold at sizes far from those that they were sampled at") {
  const TrainingSetup setup = small_setup();
  const graph::GraphForms forms = forms_near(setup);
  REQUIRE(forms.saved_activations.has_value());
  REQUIRE(forms.flops.has_value());
  const std::string saved = to_string(*forms.saved_activations);
  CHECK(contains(saved, "4*L*B*h*T^2 + "));
  CHECK(saved.find("h*T^2", saved.find("h*T^2") + 1) == std::string::npos);
  CHECK(to_string(*forms.others.at("optimizer state")) ==
        "96*L*d^2 + 104*L*d + 8*T*d + 16*d*V + 16*d");
  TrainingSetup far = setup;
  far.batch = 31;
  far.model = {.vocab_size = 1009, .context = 129, .layers = 5, .heads = 3, .dim = 96};
  const Costs costs = costs_of(training_step(far));
  const std::vector<std::int64_t> sizes{5, 31, 3, 129, 96, 1009};
  CHECK((*forms.saved_activations)(sizes) == costs.saved_activations);
  CHECK((*forms.flops)(sizes) == costs.flops);
  CHECK((*forms.others.at("parameters"))(sizes) == costs.parameters);
  CHECK((*forms.others.at("optimizer state"))(sizes) == costs.optimizer_state);
}

TEST_CASE("the form of the peak gives the peak of the sizes that it was made for") {
  const TrainingSetup setup = small_setup();
  const graph::GraphForms forms = forms_near(setup);
  REQUIRE(forms.peak.has_value());
  const std::vector<std::int64_t> sizes{3, 5, 2, 7, 12, 19};
  CHECK((*forms.peak)(sizes) == costs_of(training_step(setup)).peak);
}

TEST_CASE("a peak without a form falls into different steps, which plan names") {
  TrainingSetup setup = small_setup();
  setup.batch = 8;
  setup.model = {.vocab_size = 160, .context = 128, .layers = 4, .heads = 4, .dim = 128};
  const FormsNear forms = forms_near(setup);
  CHECK_FALSE(forms.peak.has_value());
  REQUIRE(forms.peak_steps.size() == 2);
  CHECK(*forms.peak_steps.begin() == "backward of linear in layers.*.linear2");
}

TEST_CASE("sizes that cannot be are refused by name") {
  const auto refused = [](auto change, const char* what) {
    TrainingSetup setup = small_setup();
    change(setup);
    check_throws(ErrorKind::value, {what}, [&] { training_step(setup); });
  };
  refused([](auto& s) { s.batch = 0; }, "--batch 0: it must be positive");
  refused([](auto& s) { s.model.layers = -1; }, "--layers -1: it must be positive");
  refused([](auto& s) { s.model.layers = 20000; }, "--layers 20000: more than");
  refused([](auto& s) { s.model.heads = 5; }, "--dim 12: it must be a multiple of --heads 5");
  refused([](auto& s) { s.model.dropout = 1; }, "--dropout 1: it must be at least 0 and below 1");
  refused([](auto& s) { s.model.vocab_size = 0; }, "--vocabulary 0");
  refused([](auto& s) { s.model.context = std::int64_t{1} << 40; },
          "--context 1099511627776 --vocabulary 19 --batch 5: a step's operations or bytes do not "
          "fit in 64 bits");
}

// ---- what fits ---------------------------------------------------------------------------------

TEST_CASE("the largest size that fits is found, whatever it is") {
  for (const std::int64_t bound : {0, 1, 2, 3, 4, 7, 8, 9, 1000, 1'000'003})
    CHECK(largest_that_fits([&](std::int64_t size) { return size <= bound; }) == bound);
}

TEST_CASE("a verdict is certain only with room for what buffers are rounded up by") {
  const Costs costs = costs_of(training_step(small_setup()));
  CHECK(verdict(costs, costs.most_reserved) == Verdict::fits);
  CHECK(verdict(costs, costs.most_reserved - 1) == Verdict::may_fit);
  CHECK(verdict(costs, costs.peak) == Verdict::may_fit);
  CHECK(verdict(costs, costs.peak - 1) == Verdict::too_large);
}

TEST_CASE("a step that fits for certain runs under that memory limit, and none below its peak") {
  for (const TrainingSetup& setup : small_setups()) {
    const Costs costs = costs_of(training_step(setup));
    trim();
    set_memory_limit(memory_stats().reserved + costs.most_reserved);
    CHECK_NOTHROW(run_with_data(setup));
    trim();
    set_memory_limit(memory_stats().reserved + costs.peak - 1);
    CHECK_THROWS_AS(run_with_data(setup), OutOfMemoryError);
    set_memory_limit(0);
  }
}

TEST_CASE("amounts of memory are read with units of 1024 and of 1000") {
  CHECK(parse_memory("1000000") == 1'000'000);
  CHECK(parse_memory("12B") == 12);
  CHECK(parse_memory("24GiB") == std::int64_t{24} << 30);
  CHECK(parse_memory("1.5 TiB") == std::int64_t{3} << 39);
  CHECK(parse_memory("80GB") == 80'000'000'000);
  for (const char* text : {"", "GiB", "-1GiB", "0", "nan", "inf", "24Gb", "24 G", "24GiBx", "1e40",
                           "9PPiB", "9000PiB", "24  GiB"})
    check_throws(ErrorKind::value, {"--memory " + std::string(text) + ": it must be"},
                 [&] { parse_memory(text); });
}

// ---- models from files -------------------------------------------------------------------------

TEST_CASE("a model file has the sizes, and what is wrong with one is said by field") {
  const nn::GptOptions model = model_from_json(
      R"({"layers": 2, "heads": 3, "dim": 6, "context": 5, "vocabulary": 7, "dropout": 0.5,
          "tied_output": true})",
      "m.json");
  CHECK(model.layers == 2);
  CHECK(model.heads == 3);
  CHECK(model.dim == 6);
  CHECK(model.context == 5);
  CHECK(model.vocab_size == 7);
  CHECK(model.dropout == 0.5);
  CHECK(model.tied_output);
  CHECK_FALSE(model_from_json(small_model_json, "m.json").tied_output);
  const auto refused = [](const std::string& from, const std::string& to, const char* what) {
    std::string text = small_model_json;
    text.replace(text.find(from), from.size(), to);
    check_throws(ErrorKind::value, {"m.json: ", what}, [&] { model_from_json(text, "m.json"); });
  };
  refused("{", "[", "not JSON");
  refused(small_model_json, "[1]", "is not an object");
  refused(small_model_json, "", "not JSON");
  refused("\"heads\": 2, ", "", "\"heads\" is missing");
  refused("12", "\"wide\"", "\"dim\" is not a 64-bit integer");
  refused("12", "0", "\"dim\" must be positive");
  refused("12", "13", "\"dim\" must be a multiple of \"heads\"");
  refused("12", "12.5", "\"dim\" is not a 64-bit integer");
  refused("12", "99999999999999999999", "\"dim\" is not a 64-bit integer");
  refused("12", "18446744073709551615", "\"dim\" is not a 64-bit integer");
  refused("12", "1e400", "at dim: a number is beyond float64");
  refused("12", "12, \"dim\": 24", "at dim: the key stands there twice");
  refused("}", R"(, "dropout": "some"})", "\"dropout\" is not a number");
  refused("}", R"(, "tied_output": 1})", "\"tied_output\" is not true or false");
  refused("}", R"(, "colour": 1})", "\"colour\" does not belong here");
  check_throws(ErrorKind::value, {"--model gpt5: it must be", "gpt2-xl", ".json"},
               [] { plan_model("gpt5"); });
  check_throws(ErrorKind::io, {"nowhere.json"}, [] { plan_model("/nowhere.json"); });
}

// ---- the program -------------------------------------------------------------------------------

TEST_CASE("tapehead plan prints exact figures on a page, and the same as JSON") {
  const tests::Folder folder;
  const std::string file = folder.file("m.json").string(), out = folder.file("out").string();
  std::ofstream(file) << small_model_json;
  const auto report = [&](const std::string& more, int exit_code = 0) {
    CHECK(run_program("plan --model " + file + " --batch 5 " + more + " > " + out) == exit_code);
    return io::read_file("test", out);
  };
  const Costs costs = costs_of(training_step(small_setup()));
  const std::string text = report("--formula --memory 1GiB");
  CHECK(contains(text, graph::format_bytes(costs.peak)));
  CHECK(contains(text, "0-2 x 3 "));
  for (const char* unit : {"\nparameters, bytes ", " parameters, count ", " activations, bytes "})
    CHECK(contains(text, unit));
  CHECK(contains(text, "64 bytes for each buffer"));
  CHECK(contains(text, "\nFrom runs at L 3, 4, 5; B 5, 6, 7; "));
  CHECK(contains(text, ": fits\n"));
  CHECK(contains(text, "layers.*.self_attn softmax.y\n    4*L*B*h*T^2\n"));
  for (std::size_t begin = 0, end; begin < text.size(); begin = end + 1) {
    end = text.find('\n', begin);
    REQUIRE(end != std::string::npos);
    CHECK(end - begin <= 100);
  }
  const json all = json::parse(report("--json --formula --memory 10KiB", 1));
  CHECK(all["format"] == "tapehead-plan/1");
  CHECK(all["peak_bytes"] == costs.peak);
  CHECK(all["saved_activation_bytes"] == costs.saved_activations);
  CHECK(all["parameter_bytes"] == costs.parameters);
  CHECK(all["parameters"] == costs.parameters / 4);
  CHECK(all["memory"]["verdict"] == "does not fit");
  CHECK(all["batch"] == 5);
  CHECK(contains(all["closed_forms"]["saved_activation_bytes"].get<std::string>(), "4*L*B*h*T^2"));
  CHECK(all["closed_forms"]["optimizer_state_bytes"].is_string());
  std::int64_t saved = all["root"]["saved_activation_bytes"];
  for (const json& module : all["modules"])
    saved += module["saved_activation_bytes"].get<std::int64_t>();
  CHECK(saved == costs.saved_activations);
  const graph::Sizes sizes = {{"L", 3}, {"B", 5}, {"h", 2}, {"T", 7}, {"d", 12}, {"V", 19}};
  CHECK(graph::formula_value(all["closed_forms"]["saved_activation_bytes"].get<std::string>(),
                             sizes) == costs.saved_activations);
}

TEST_CASE("tapehead plan --fit finds a size that fits, the next of which does not") {
  const tests::Folder folder;
  const std::string file = folder.file("m.json").string(), out = folder.file("out").string();
  std::ofstream(file) << small_model_json;
  for (const std::string what : {"batch", "context"}) {
    const std::string arguments = "--model " + file + " --json --memory 2MiB ";
    CHECK(run_program("plan " + arguments + "--fit " + what + " > " + out) == 0);
    const json found = json::parse(io::read_file("test", out));
    CHECK(found["fit"]["what"] == what);
    const std::int64_t size = what == "batch" ? found["batch"] : found["model"]["context"];
    CHECK(size > 7);
    CHECK(found["fit"]["largest"] == size);
    const auto with = [&](std::int64_t value) {
      return run_program("plan " + arguments + "--" + what + " " + std::to_string(value) + " > " +
                         out);
    };
    CHECK(with(size) == 0);
    CHECK(with(size + 1) == 1);
  }
  CHECK(run_program(
            "plan --layers 3 --heads 2 --dim 12 --vocabulary 19 --memory 2MiB --fit context > " +
            out) == 0);
  CHECK(run_program("plan --model " + file + " --memory 9KiB --fit batch > " + out) == 1);
  CHECK(
      contains(io::read_file("test", out), "does not fit; not even a batch of 1 fits for certain"));
}

TEST_CASE("tapehead plan refuses bad input with one line and exit code 2") {
  const tests::Folder folder;
  const std::string file = folder.file("m.json").string(), err = folder.file("err").string();
  std::ofstream(file) << "{\"layers\":";
  const auto refused = [&](const std::string& arguments, const std::string& what) {
    CAPTURE(arguments);
    CHECK(run_program("plan " + arguments + " 2> " + err) == 2);
    const std::string complaint = io::read_file("test", err);
    CHECK(contains(complaint, what));
    CHECK(std::count(complaint.begin(), complaint.end(), '\n') == 1);
  };
  refused("", "it needs --model, or --layers");
  refused("--layers 3 --dim 4", "it needs --model, or --layers");
  refused("--model " + file, "m.json: at layers: not JSON");
  refused("--model gpt9", "gpt9");
  refused("--model gpt2 --heads 7", "--dim 768: it must be a multiple of --heads 7");
  refused("--model gpt2 --batch 0", "--batch 0: it must be positive");
  refused("--model gpt2 --batch many", "many");
  refused("--model gpt2 --dtype f8", "--dtype f8: it must be one of f32, f64, bf16, f16");
  refused("--model gpt2 --attention flash", "--attention flash");
  refused("--model gpt2 --checkpoint all", "--checkpoint all");
  refused("--model gpt2 --optimizer lion", "--optimizer lion");
  refused("--model gpt2 --memory lots", "--memory lots: it must be");
  refused("--model gpt2 --fit batch", "--fit needs --memory");
  refused("--model gpt2 --memory 1GiB --fit dim", "--fit dim");
  refused("--model gpt2 --memory 1GiB --fit batch --batch 2", "--batch is what --fit batch finds");
  for (const std::string size : {"batch", "context"})
    refused("--model gpt2 --memory 8000000TiB --fit " + size,
            "--memory 8000000TiB: a " + size + " that fills so much has more operations or bytes");
  refused("--model gpt2 --memory 9000000TiB --fit batch", "--memory 9000000TiB: it must be");
  refused("--model gpt2 --colour red", "--colour");
}
