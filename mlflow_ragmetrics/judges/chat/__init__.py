"""Judges that are chat models: messages, replies, limits, retries."""
