#include "cli/program.h"

#include "extension/extension.h"

int isobit_program(int argc, char** argv) { return isobit::cli::program(argc, argv); }
