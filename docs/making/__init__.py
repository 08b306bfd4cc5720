"""The generated parts of the pages, and the files that a build adds to the site."""
