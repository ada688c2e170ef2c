"""The plan file: its bytes, its reader and writer, and the proof that it is safe to run."""
