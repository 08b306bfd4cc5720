"""Records of any ecosystem, read field by field into samples."""
