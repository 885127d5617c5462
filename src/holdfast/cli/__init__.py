"""The command line: a file per group of commands; `main` finds them and reports what is wrong."""
