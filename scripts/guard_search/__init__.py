"""scripts/guard-ways: every way by which a float can come about in a PyTorch process."""
