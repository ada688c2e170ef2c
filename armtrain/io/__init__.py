"""Files: crash-safe writing and safetensors."""
