"""What scripts/gpu-check runs: torch and numpy alone."""
