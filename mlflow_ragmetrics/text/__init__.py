"""The one reader of language: sentences, terms, non-answers, and messages in two languages."""
