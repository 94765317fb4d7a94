"""The bronze tables, one file each."""
