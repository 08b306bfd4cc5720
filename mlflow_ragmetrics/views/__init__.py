"""What people look at: pages, notebook cells, plots, text tables and progress."""
