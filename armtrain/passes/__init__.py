"""From a traced network to a training program: one idea per file, values in, values out."""
