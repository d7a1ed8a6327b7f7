"""Makes a kernel faster with the library's skills: retrieve, materialize, gate, keep what is faster, go on."""
