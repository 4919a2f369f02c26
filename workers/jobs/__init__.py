"""Steps that jobs of all executors share: claims, inputs, transitions."""
