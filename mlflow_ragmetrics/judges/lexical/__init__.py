"""The offline judge: sentences, claims, terms, coverage, disagreement, and how to say it."""
