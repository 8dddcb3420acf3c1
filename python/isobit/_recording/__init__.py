"""isobit.record, isobit.trace, isobit.fingerprint: what is observed of a training, and the folder that it is written to."""
