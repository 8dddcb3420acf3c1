"""Models and trainers of other libraries under the switch: scripts/models."""
