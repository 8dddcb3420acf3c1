#include "report/export_formats.h"
#include "report/output_folder.h"
#include "report/tables.h"

namespace isobit::report {

void write_csv(const archive::ExportPlan& plan, const std::filesystem::path& folder) {
  OutputFolder out(folder);
  const Json tables = run_tables(plan.texts);
  for (const auto& [name, table] : tables.items()) out.write(name + ".csv", csv_text(table));
  out.commit();
}

}  // namespace isobit::report
