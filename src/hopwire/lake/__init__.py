"""The Spark side: tables, sources and runs. The only package that knows Spark."""
