"""What a judge notices: supported claims of one's own answers are edited, without labels, and judged again."""
