// Images made by the contract's random numbers, for a first run where no data are at hand.
//
// Ten classes of 28 x 28 pixels, integers throughout. Class c has a pattern of 7 x 7 cells, bright where bit 31 of
// random_word(derive_key(1, "demo", 0, c), cell) is set. A sample shows its class's pattern with cells of 4 x 4 pixels,
// moved by up to 3 pixels each way, one pixel in four replaced by noise. No state; thread-safe.
#pragma once

#include <filesystem>

namespace isobit::train {

// Writes the four IDX files of the MNIST family (12,000 samples for training, 2,000 for testing), plain, under their
// usual names, into `folder`. Each appears whole. archive::UserError where one cannot be written.
void write_demo_images(const std::filesystem::path& folder);

}  // namespace isobit::train
