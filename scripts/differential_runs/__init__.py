"""scripts/differential: random programs of certified operators, the same bits however they are executed."""
