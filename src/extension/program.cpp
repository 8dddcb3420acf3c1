#include "cli/program.h"

#include <cstdio>

#include "aten/check_mode.h"
#include "extension/extension.h"

int isobit_program(int argc, char** argv) {
  if (isobit::aten::check_mode::on()) {
    std::fputs("isobit: no command runs within isobit check: what this process computes is not certified\n", stderr);
    return 2;
  }
  return isobit::cli::program(argc, argv);
}
