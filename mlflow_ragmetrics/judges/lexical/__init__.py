"""The offline judge: sentences, claims, terms, coverage and contradictions."""
