"""ROUGE: tokens, overlap, longest common subsequences, stemming, and tables of many pairs."""
