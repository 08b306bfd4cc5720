"""A judge that is a language model: messages, replies, limits, retries."""
