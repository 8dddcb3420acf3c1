// A small trace for tests: two steps of three operators, whose digests are functions of their names.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "archive/sha256.h"
#include "trace/trace_file.h"

namespace isobit::trace {

inline TraceHeader small_header(const std::string& values = "") {
  TraceHeader header;
  header.arithmetic = "isobit-0.1";
  header.torch = "2.13.0";
  header.window = {3, 2};
  header.values = values;
  header.environment = R"({"format":"isobit-environment-1","hardware":{"cpu":"a"},"run":{"threads":"1"}})";
  return header;
}

inline TensorTrace small_tensor(const std::string& text) {
  TensorTrace tensor;
  tensor.dtype = "float32";
  tensor.shape = {2, 3};
  tensor.fingerprint = archive::sha256(text).substr(0, 32);
  return tensor;
}

inline OperatorLine small_line(std::int64_t step, const std::string& name, std::int64_t occurrence) {
  OperatorLine line;
  line.key = {step, Phase::forward, "model.fc", name, occurrence};
  line.arguments = "t,0.5";
  line.inputs = {small_tensor("in " + to_string(line.key))};
  line.outputs = {small_tensor("out " + to_string(line.key))};
  return line;
}

// `alter` may change a line before it is written.
inline std::filesystem::path write_small(const std::filesystem::path& path,
                                         const std::function<void(OperatorLine&)>& alter = {},
                                         const TraceHeader& header = small_header()) {
  TraceWriter writer(path, header);
  for (std::int64_t step = header.window.first; step <= header.window.last(); ++step) {
    for (OperatorLine line : {small_line(step, "aten::linear", 1), small_line(step, "aten::relu", 1),
                              small_line(step, "aten::linear", 2)}) {
      if (alter) alter(line);
      writer.add(line);
    }
    writer.end_step({step, 3, ""});
  }
  writer.finish();
  return path;
}

}  // namespace isobit::trace
