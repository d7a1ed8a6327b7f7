"""One verb each: gate a kernel, keep evidence, rewrite, probe."""
