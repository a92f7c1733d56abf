"""What is worth keeping of a conversation: by rules, and what must never be kept."""
