"""Tasks of several steps by language; see `intercode.generate.composition`."""
