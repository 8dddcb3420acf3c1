#include "bench/operator_coverage.h"

#include <fmt/format.h>
#include <torch/version.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "archive/user_error.h"
#include "contract/platform.h"

namespace isobit::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<aten::OperatorClass, 4> kClasses = {aten::OperatorClass::certified, aten::OperatorClass::exact,
                                                         aten::OperatorClass::composite, aten::OperatorClass::refused};

// The first family one of whose words stands in the name takes the operator; "^" binds a word to the name's beginning,
// "$" to its end. The name is without namespace and leading underscores.
struct Family {
  std::string_view name;
  std::vector<std::string_view> words;
};

const std::vector<Family>& families() {
  static const std::vector<Family> list = {
      {"foreach and fused optimizer steps", {"^foreach_", "^fused_adam", "^fused_sgd", "^fused_adagrad", "^amp_"}},
      {"kernels of one backend, compressed formats",
       {"cudnn",
        "miopen",
        "mkldnn",
        "mps_",
        "xnnpack",
        "cslt",
        "vulkan",
        "nnpack",
        "thnn_",
        "slow_conv",
        "scaled_mm",
        "grouped_mm",
        "int4",
        "int8",
        "wint",
        "weight_int",
        "dyn_quant",
        "flash",
        "efficient_attention",
        "triton",
        "sobol",
        "fbgemm",
        "trilinear",
        "conv_depthwise",
        "thnn",
        "cufft",
        "compute_linear_combination",
        "validate_compressed"}},
      {"quantised", {"quant", "^q_", "fake_", "^int_repr", "^dequantize"}},
      {"sparse, nested and jagged tensors",
       {"sparse", "coo", "csr", "csc", "bsr", "bsc", "nested", "jagged", "crow_", "ccol_", "^coalesce", "^indices",
        "^values", "^nnz", "^dimi", "^dimv", "padded"}},
      {"Fourier transforms, windows", {"^fft_", "^fft", "stft", "_window", "^kaiser"}},
      {"linear algebra: factorisations, solvers, inverses",
       {"^linalg_", "cholesky", "^lu_", "^svd", "^qr", "^geqrf", "^ormqr", "^orgqr", "triangular", "^inverse", "lstsq",
        "slogdet", "^logdet", "^det", "matrix_exp", "matrix_power", "householder", "^pinverse", "^lobpcg"}},
      {"special functions", {"^special_", "gamma", "erfinv", "^i0", "^polygamma", "^digamma", "^mvlgamma"}},
      {"recurrent networks", {"lstm", "gru", "^rnn_"}},
      {"attention and transformer layers", {"attention", "^transformer_"}},
      {"convolutions", {"conv", "^unfold", "col2im", "im2col"}},
      {"pooling", {"pool"}},
      {"normalisation", {"batch_norm", "layer_norm", "group_norm", "instance_norm", "rms_norm", "local_response"}},
      {"losses, distances", {"_loss", "cross_entropy", "kl_div", "cdist", "pdist", "pairwise", "cosine_sim"}},
      {"resampling and padding of images",
       {"upsample", "grid_sampl", "affine_grid", "_pad1d", "_pad2d", "_pad3d", "^pad", "pixel_", "channel_shuffle"}},
      {"random numbers",
       {"^rand", "^normal", "^bernoulli", "multinomial", "^uniform", "^exponential", "^cauchy", "^geometric",
        "^log_normal", "dropout", "^poisson", "^binomial", "dirichlet", "^rrelu", "^random"}},
      {"copying forms of views, symbolic sizes", {"_copy$", "^sym_", "functional_", "^test_", "^make_", "_scatter$"}},
  };
  return list;
}

constexpr std::string_view kRest = "the rest: arithmetic, sums, indexing, activations";
constexpr std::string_view kOutside = "outside aten:: (quantized, prims, collectives, ...)";

bool has_word(std::string_view name, std::string_view word) {
  if (word.front() == '^') return name.substr(0, word.size() - 1) == word.substr(1);
  if (word.back() == '$') {
    word.remove_suffix(1);
    return name.size() >= word.size() && name.substr(name.size() - word.size()) == word;
  }
  return name.find(word) != name.npos;
}

std::size_t family_of(std::string_view name) {
  constexpr std::string_view aten_namespace = "aten::";
  if (name.substr(0, aten_namespace.size()) != aten_namespace) return families().size() + 1;
  name.remove_prefix(aten_namespace.size());
  while (!name.empty() && name.front() == '_') name.remove_prefix(1);
  const auto found = std::find_if(families().begin(), families().end(), [name](const Family& family) {
    return std::any_of(family.words.begin(), family.words.end(), [name](auto word) { return has_word(name, word); });
  });
  return found - families().begin();
}

Json read_samples(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw archive::UserError(path, "cannot be read", "make it with scripts/op-samples --out FILE");
  Json all = Json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (all.is_discarded() || !all.contains("total") || !all.contains("torch")) {
    throw archive::UserError(path, "was not written by scripts/op-samples",
                             "make it with scripts/op-samples --out FILE");
  }
  Json samples;
  samples["torch"] = all["torch"];
  for (const auto& [key, value] : all["total"].items()) samples[key] = value;
  return samples;
}

}  // namespace

std::vector<FamilyCoverage> coverage_by_family(const std::vector<aten::OperatorInfo>& operators) {
  std::vector<FamilyCoverage> all;
  for (const Family& family : families()) all.push_back({family.name, {}});
  all.push_back({kRest, {}});
  all.push_back({kOutside, {}});
  for (const aten::OperatorInfo& info : operators) {
    ++all[family_of(info.name)].counts[static_cast<std::size_t>(info.kind)];
  }
  return all;
}

Json coverage_json(const std::vector<aten::OperatorInfo>& operators, const std::string& samples) {
  Json out;
  out["contract"] = contract::kContractVersion;
  out["torch"] = TORCH_VERSION;
  const std::vector<FamilyCoverage> rows = coverage_by_family(operators);
  for (const auto kind : kClasses) {
    std::size_t all = 0, aten_only = 0;
    for (const FamilyCoverage& row : rows) {
      const std::size_t count = row.counts[static_cast<std::size_t>(kind)];
      all += count;
      if (row.family != kOutside) aten_only += count;
    }
    const std::string name(aten::to_string(kind));
    out["aten"][name] = aten_only;
    out["all"][name] = all;
  }
  for (const FamilyCoverage& row : rows) {
    Json line{{"family", row.family}};
    for (const auto kind : kClasses)
      line[std::string(aten::to_string(kind))] = row.counts[static_cast<std::size_t>(kind)];
    out["families"].push_back(line);
  }
  if (!samples.empty()) out["samples"] = read_samples(samples);
  return out;
}

std::string coverage_text(const Json& coverage) {
  std::string text =
      fmt::format("{:<52} {:>9} {:>6} {:>9} {:>8}\n", "family", "certified", "exact", "composite", "refused");
  const auto line = [&text](std::string_view name, const Json& counts) {
    text += fmt::format("{:<52} {:>9} {:>6} {:>9} {:>8}\n", name.substr(0, 52), counts["certified"].get<int>(),
                        counts["exact"].get<int>(), counts["composite"].get<int>(), counts["refused"].get<int>());
  };
  for (const Json& row : coverage["families"]) line(row["family"].get<std::string>(), row);
  line("aten:: in all", coverage["aten"]);
  line("all namespaces", coverage["all"]);
  if (coverage.contains("samples")) {
    const Json& samples = coverage["samples"];
    text += fmt::format("samples of {} operators: {} pass, {} fail, {} refused, {} skipped\n",
                        samples["operators"].get<int>(), samples["pass"].get<int>(), samples["fail"].get<int>(),
                        samples["refused"].get<int>(), samples["skipped"].get<int>());
  }
  text += fmt::format("under {}, torch {}\n", coverage["contract"].get<std::string>(),
                      coverage["torch"].get<std::string>());
  return text;
}

}  // namespace isobit::bench
