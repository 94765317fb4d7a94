"""The page: a lake in a browser. HTML and SVG come from here, and DuckDB reads the tables; no Spark, no other host."""
