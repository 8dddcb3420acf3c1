"""What scripts/touched knows: rules.py says what belongs together, tree.py reads the repository, choice.py decides, minutes.py
says how long it took."""
