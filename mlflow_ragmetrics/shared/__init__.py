"""What several metrics have in common: claims, similarity, retrieved documents, states of answers."""
