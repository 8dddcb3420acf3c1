#include "extension/traces.h"

#include <memory>
#include <optional>
#include <stdexcept>

#include "aten/check_mode.h"
#include "extension/reported.h"
#include "trace/operator_observer.h"
#include "trace/trace_environment.h"
#include "trace/trace_file.h"

namespace {

namespace trace = isobit::trace;
using isobit::extension::reported;

struct OpenTrace {
  explicit OpenTrace(const char* path, const trace::TraceHeader& header) : writer(path, header), observer(writer) {}
  trace::TraceWriter writer;
  trace::OperatorObserver observer;
  std::optional<trace::OptimizerPhase> optimizer;
};
// Never destroyed: a process may end within a trace, when torch's own tables are gone already.
auto& open_trace = *new std::unique_ptr<OpenTrace>;

OpenTrace& current() {
  if (!open_trace) throw std::logic_error("no trace is being made");
  return *open_trace;
}

}  // namespace

const char* isobit_trace_begin(const char* path, std::int64_t first, std::int64_t count, std::int64_t samples,
                               int statistics, const char* values) {
  return reported([=] {
    if (open_trace) throw std::logic_error("a trace is being made already: one at a time");
    if (isobit::aten::check_mode::on()) {
      throw std::logic_error("no trace within isobit check: what it computes is not certified");
    }
    trace::TraceHeader header = trace::header_of_this_process();
    header.window = {first, count};
    header.samples = samples;
    header.statistics = statistics != 0;
    header.values = values;
    open_trace = std::make_unique<OpenTrace>(path, header);
  });
}

const char* isobit_trace_begin_step(std::int64_t step) {
  return reported([step] { current().observer.begin_step(step); });
}

const char* isobit_trace_end_step() {
  return reported([] { current().observer.end_step(); });
}

const char* isobit_trace_optimizer(int begins) {
  return reported([begins] {
    current().optimizer.reset();
    if (begins != 0) current().optimizer.emplace();
  });
}

const char* isobit_trace_size(std::int64_t* operators, std::int64_t* bytes) {
  return reported([=] {
    *operators = current().writer.operators();
    *bytes = static_cast<std::int64_t>(current().writer.bytes());
  });
}

const char* isobit_trace_finish() {
  return reported([] {
    current().writer.finish();
    open_trace.reset();
  });
}

void isobit_trace_drop() { open_trace.reset(); }
