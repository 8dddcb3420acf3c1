"""Loops that a record can resume in: over steps that are cut into grains, over epochs, over a DataLoader's batches."""
