// The whole program in one file, with the components that it was linked with.
#include "cli/program.h"

int main(int argc, char** argv) { return isobit::cli::program(argc, argv); }
