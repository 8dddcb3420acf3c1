"""What every room stands on: errors, the library's C functions, `isobit check`'s mode, generators' states, command lines."""
