"""The silver tables, one file each."""
