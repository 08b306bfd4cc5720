"""What the lexical judge knows about wording: sentences, claims, terms, coverage, disagreement, and how to say it."""
