"""What devices and engines print, turned into facts: pure parsers, one module per kind."""
