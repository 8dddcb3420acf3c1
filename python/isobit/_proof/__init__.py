"""What `isobit verify` asks of Python: a recorded program written out as it was, what lies beside it, and its second run."""
