"""What of the site is made from the code and from committed figures, at each build."""
