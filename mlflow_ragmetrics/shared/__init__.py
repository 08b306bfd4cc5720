"""What several metrics have in common: claims, similarity, retrieved documents, non-answers."""
