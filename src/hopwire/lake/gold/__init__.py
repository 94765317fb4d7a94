"""The gold tables, one file each."""
