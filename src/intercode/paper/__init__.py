"""InterCode v1, the system of the paper (Yang et al., NeurIPS 2023): its rewards and records."""
