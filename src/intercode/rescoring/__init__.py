"""What is done with a finished run: `rescore`, `replay`, `judge`; and the records of other systems."""
