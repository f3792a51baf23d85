"""Score a finished run again (`rescore`, `replay`), or let a model judge its unclear answers
(`judge`)."""
